"""A file that is being downloaded: hidden, locked against other processes, and there to be continued.

It lies beside its target under a name that holds the digest it must get, so that a new edition of a file is never
continued with the bytes of an old one. Its lock ends with the process, however that ends.
"""

import fcntl
import hashlib
import os
from pathlib import Path

from prover.keys.atomic_file import sync_folder
from prover.keys.checksums import ExpectedFile

_STEP_BYTES = 2**22
_DIGEST_DIGITS = 16


class PartialFile:
    """The hidden file of one download. Methods raise OSError where the file system does."""

    def __init__(self, folder: Path, expected: ExpectedFile) -> None:
        self.target = folder / expected.name
        self.size = 0
        """Bytes that are there."""
        self._expected = expected
        self._path = folder / f".{expected.name}.{expected.sha256[:_DIGEST_DIGITS]}.partial"
        self._descriptor: int | None = None
        self._digest = hashlib.sha256()
        self._interrupted = False

    def acquire(self) -> bool:
        """Open and lock the file, made if need be; False while another process holds it."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            ours = self._is_at_path(descriptor)
        except BlockingIOError:
            ours = False
        except BaseException:
            os.close(descriptor)
            raise
        if ours:
            self._descriptor = descriptor
        else:  # locked, or finished by its owner between our two steps
            os.close(descriptor)
        return ours

    @property
    def is_complete(self) -> bool:
        """Whether the bytes are those that were published."""
        return self._digest.hexdigest() == self._expected.sha256

    @property
    def sha256(self) -> str:
        """Digest of the bytes that are there."""
        return self._digest.hexdigest()

    def left_over_bytes(self) -> int:
        """Bytes on disk that an earlier download left."""
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0

    def resume(self) -> None:
        """Take what an earlier download left; reads all of it, unless another thread calls ``interrupt``."""
        descriptor = self._open()
        os.lseek(descriptor, 0, os.SEEK_SET)
        while not self._interrupted and (piece := os.read(descriptor, _STEP_BYTES)):
            self._digest.update(piece)
            self.size += len(piece)

    def interrupt(self) -> None:
        """Let a running ``resume`` end early; the file can only be closed then."""
        self._interrupted = True

    def restart(self) -> None:
        """Throw away what is there."""
        os.ftruncate(self._open(), 0)
        os.lseek(self._open(), 0, os.SEEK_SET)
        self._digest = hashlib.sha256()
        self.size = 0

    def write(self, piece: bytes) -> None:
        """Append bytes and hash them."""
        view = memoryview(piece)
        while view:
            written = os.write(self._open(), view)
            self._digest.update(view[:written])
            self.size += written
            view = view[written:]

    def publish(self) -> None:
        """Make the bytes last and give them the name of the target, in one step."""
        os.fsync(self._open())
        self._path.replace(self.target)
        sync_folder(self.target.parent)

    def close(self) -> None:
        """Release the file; nothing stays of one that is empty."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        try:
            if not os.fstat(descriptor).st_size and self._is_at_path(descriptor):
                self._path.unlink(missing_ok=True)
        finally:
            os.close(descriptor)

    def _open(self) -> int:
        if self._descriptor is None:
            raise ValueError("the file is not open")
        return self._descriptor

    def _is_at_path(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), self._path.stat())
        except FileNotFoundError:
            return False
