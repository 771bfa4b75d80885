"""A file that is being downloaded: hidden, locked against other processes, and there to be continued.

It lies beside its target under a name that holds the digest it must get, so that a new edition of a file is never
continued with the bytes of an old one. Its lock ends with the process, however that ends.

Not every file system keeps that promise. Where it has no locks, the file gets a name of its own, and nobody continues
it. Where locks hold on one machine alone, processes of two machines may write into one file. So bytes are never cut off
in place, what is published is compared with what was written, and a process that finds wrong bytes of its own in a file
that another one has published removes it.

Another user who may write to the folder may have planted something under the name: a link would lead the bytes out of
the folder. What is no regular file of this user with one name is left alone, and the file gets a name of its own.
"""

import errno
import hashlib
import os
import secrets
import stat
from pathlib import Path

from prover.keys.catalogue.published_digests import ExpectedFile
from prover.keys.files.atomic_file import sync_folder
from prover.keys.files.file_lock import try_lock
from prover.keys.files.file_owner import untrusted_reason
from shared.logs import get_logger

_log = get_logger(__name__)

_STEP_BYTES = 2**22
_DIGEST_DIGITS = 16
_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""A pipe that somebody planted would be waited for without O_NONBLOCK; it changes nothing about files."""
_REFUSED = (errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.EACCES, errno.EPERM)
"""What opening says of a link, a folder, a pipe or socket, and of another user's file."""


class PartialFileDisplaced(Exception):
    """Another process has taken, replaced or changed the file while it was written; nothing was published."""


class PartialFile:
    """The hidden file of one download. Methods raise OSError where the file system does."""

    def __init__(self, folder: Path, expected: ExpectedFile) -> None:
        self.target = folder / expected.name
        self.size = 0
        """Bytes that are there."""
        self._expected = expected
        self._shared_name = f".{expected.name}.{expected.sha256[:_DIGEST_DIGITS]}.partial"
        self._path = folder / self._shared_name
        self._is_own = False
        """Whether no other process knows its name."""
        self._descriptor: int | None = None
        self._digest = hashlib.sha256()
        self._interrupted = False

    def acquire(self) -> bool:
        """Open and lock the file, made if need be; False while another process holds it.

        Where the file system has no locks, or something else has the name, a file of its own is made.
        """
        descriptor = self._open_shared()
        if descriptor is None:
            self._path, self._descriptor = self._new_file()
            self._is_own = True
            return True
        is_ours = False
        try:
            taken = try_lock(descriptor)
            is_ours = taken is True and _is_at(self._path, descriptor)
            if taken is None:
                self._remove_empty(descriptor)
        finally:
            if not is_ours:  # locked, or finished by its owner between our two steps, or without a lock
                os.close(descriptor)
        if is_ours:
            self._descriptor = descriptor
        elif taken is None:
            self._path, self._descriptor = self._new_file()
            self._is_own = True
        return self._descriptor is not None

    @property
    def is_kept(self) -> bool:
        """Whether the next download finds and continues what is there."""
        return not self._is_own

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
            return self._path.lstat().st_size
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
        """Throw away what is there, by a new file: a process that shares the old one must not find a hole in it.

        Nothing is there at a first start, and still the file is new: two machines that opened one then write apart.
        """
        before = self._open()
        path, descriptor = self._new_file()
        try:
            try_lock(descriptor)  # before it has the name for which others wait
            if _is_at(self._path, before):
                path.replace(self._path)
            else:  # another process has the name now
                self._path, self._is_own = path, True
        except BaseException:
            os.close(descriptor)
            path.unlink(missing_ok=True)
            raise
        self._descriptor = descriptor
        self._digest = hashlib.sha256()
        self.size = 0
        try:
            self._remove_spoiled_target(before)
        finally:
            os.close(before)

    def write(self, piece: bytes) -> None:
        """Append bytes and hash them."""
        view = memoryview(piece)
        while view:
            written = os.write(self._open(), view)
            self._digest.update(view[:written])
            self.size += written
            view = view[written:]

    def publish(self) -> None:
        """Make the bytes last and give them the name of the target, in one step.

        A target that came meanwhile stays. Raises PartialFileDisplaced when the file is no longer what was written.
        """
        descriptor = self._open()
        os.fsync(descriptor)
        if not self.target.is_file():
            self._rename(descriptor)
        if _is_at(self._path, descriptor):
            self._path.unlink(missing_ok=True)
        elif self._path.exists() and self._remove_spoiled_target(descriptor):
            # It was replaced by a process that may have found wrong bytes of its own in it, after we compared.
            raise PartialFileDisplaced
        sync_folder(self.target.parent)

    def close(self) -> None:
        """Release the file; nothing stays of one that is empty or that nobody would continue."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        try:
            if self._is_own:
                self._path.unlink(missing_ok=True)
            else:
                self._remove_empty(descriptor)
            if not self.is_complete:
                self._remove_spoiled_target(descriptor)
        finally:
            os.close(descriptor)

    def _open(self) -> int:
        if self._descriptor is None:
            raise ValueError("the file is not open")
        return self._descriptor

    def _open_shared(self) -> int | None:
        """Open the file that processes of this user share, made if need be; None where something else has its name."""
        try:
            descriptor = os.open(self._path, _OPEN, 0o666)
        except OSError as error:
            if error.errno not in _REFUSED or not os.path.lexists(self._path):
                raise
            reason: str | None = f"it cannot be opened: {error.strerror}"
        else:
            reason = _objection(os.fstat(descriptor))
            if reason is None:
                return descriptor
            os.close(descriptor)
        _log.warning("partial_file_refused", file=str(self._path), reason=reason, remedy="remove it")
        return None

    def _own_path(self) -> Path:
        return self._path.with_name(f"{self._shared_name}.{secrets.token_hex(8)}")

    def _new_file(self) -> tuple[Path, int]:
        path = self._own_path()
        return path, os.open(path, _OPEN | os.O_EXCL, 0o666)

    def _rename(self, descriptor: int) -> None:
        """Give the file its last name by way of a link that nobody else knows, hence nobody exchanges."""
        path = self._path if self._is_own else self._link()
        try:
            if not _is_at(path, descriptor) or os.fstat(descriptor).st_size != self.size:
                raise PartialFileDisplaced
            path.replace(self.target)
        finally:
            if path != self._path:  # a rename onto another link of the same file leaves both
                path.unlink(missing_ok=True)

    def _link(self) -> Path:
        path = self._own_path()
        try:
            os.link(self._path, path)
        except FileNotFoundError as error:
            raise PartialFileDisplaced from error
        except OSError:  # the file system has no links
            return self._path
        return path

    def _remove_empty(self, descriptor: int) -> None:
        if not os.fstat(descriptor).st_size and _is_at(self._path, descriptor):
            self._path.unlink(missing_ok=True)

    def _remove_spoiled_target(self, descriptor: int) -> bool:
        """Remove the target if it is this very file and wrong; tells whether it was.

        Another process that shares the file has published it then, while this one wrote other bytes into it.
        """
        if not _is_at(self.target, descriptor) or _digest_of(descriptor) == self._expected.sha256:
            return False
        self.target.unlink(missing_ok=True)
        return True


def _objection(file: os.stat_result) -> str | None:
    """Say why what has the name of a partial file is not to be written to; None if it is one."""
    if not stat.S_ISREG(file.st_mode):
        return "it is no regular file"
    if file.st_nlink > 1:
        return "it has other names, too"
    return untrusted_reason(file)


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _digest_of(descriptor: int) -> str:
    digest, done = hashlib.sha256(), 0
    while piece := os.pread(descriptor, _STEP_BYTES, done):
        digest.update(piece)
        done += len(piece)
    return digest.hexdigest()
