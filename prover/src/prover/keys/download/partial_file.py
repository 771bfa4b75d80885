"""A file that is being downloaded: hidden, locked against other processes, and resumable.

It is next to its target, under a name that contains the expected digest, so that a new release of a file is never
resumed with the bytes of an old one. Its lock is released when the process ends in any way.

Not every file system has such locks. Without locks, the file gets a private name and is not resumed. With locks on one
machine only, processes of two machines may write into one file. So files are never truncated in place, a published file
is compared with the written bytes, and a process that finds its own wrong bytes in a file that another one has
published removes that file.

Another user with write permission for the folder may have planted an entry under the name: a link would lead the bytes
out of the folder. Anything but a regular file of this user with one name is left alone, and a private name is used.
"""

import errno
import glob
import hashlib
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from prover.keys.catalogue.published_digests import ExpectedFile
from prover.keys.files.atomic_file import sync_folder
from prover.keys.files.file_owner import untrusted_reason
from shared.process.file_lock import try_lock
from shared.process.logs import get_logger

_log = get_logger(__name__)

_STEP_BYTES = 2**22
_DIGEST_DIGITS = 16
_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Without O_NONBLOCK opening a planted pipe would block; regular files are not affected."""
_REFUSED = (errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.EACCES, errno.EPERM)
"""Errors of opening a link, a folder, a pipe or socket, and another user's file."""


class PartialFileSuperseded(Exception):
    """Another process has published, replaced or changed the file during the download; nothing was published."""


class PartialFile:
    """The hidden file of one download. Methods raise the OSError of the file system."""

    def __init__(self, folder: Path, expected: ExpectedFile) -> None:
        self.target = folder / expected.name
        self.size = 0
        """Bytes in the file."""
        self._expected = expected
        self._shared_name = f".{expected.name}.{expected.sha256[:_DIGEST_DIGITS]}.partial"
        self._path = folder / self._shared_name
        self._is_private = False
        """True if its name is private to this process."""
        self._descriptor: int | None = None
        self._digest = hashlib.sha256()
        self._interrupted = False

    def acquire(self) -> bool:
        """Open and lock the file, created if necessary; False while another process holds it.

        If the file system has no locks, or another entry has the name, a file with a private name is created.
        """
        descriptor = self._open_shared()
        if descriptor is None:
            self._path, self._descriptor = self._new_file()
            self._is_private = True
            return True
        is_ours = False
        try:
            locked = try_lock(descriptor)
            is_ours = locked is True and _is_at(self._path, descriptor)
            if locked is None:
                self._remove_empty(descriptor)
        finally:
            if not is_ours:  # locked by another, or published between the two steps, or without locks
                os.close(descriptor)
        if is_ours:
            self._descriptor = descriptor
        elif locked is None:
            self._path, self._descriptor = self._new_file()
            self._is_private = True
        return self._descriptor is not None

    @property
    def is_kept(self) -> bool:
        """True if the next download finds and resumes the file."""
        return not self._is_private

    @property
    def matches_published_digest(self) -> bool:
        """True if the bytes have the published digest."""
        return self._digest.hexdigest() == self._expected.sha256

    @property
    def sha256(self) -> str:
        """Digest of the bytes in the file, in hex."""
        return self._digest.hexdigest()

    def left_over_bytes(self) -> int:
        """Return the bytes on disk of an earlier download."""
        try:
            return self._path.lstat().st_size
        except FileNotFoundError:
            return 0

    def resume(self) -> None:
        """Read and hash the bytes of an earlier download, until another thread calls ``interrupt``."""
        descriptor = self._open()
        os.lseek(descriptor, 0, os.SEEK_SET)
        while not self._interrupted and (piece := os.read(descriptor, _STEP_BYTES)):
            self._digest.update(piece)
            self.size += len(piece)

    def interrupt(self) -> None:
        """End a running ``resume`` early; afterwards the file can only be closed."""
        self._interrupted = True

    def restart(self) -> None:
        """Discard the bytes by means of a new file: a process that shares the old one must not find a hole in it.

        An empty file is replaced, too: two machines that opened the same one then write to different files.
        """
        before = self._open()
        path, descriptor = self._new_file()
        try:
            try_lock(descriptor)  # before it gets the name for which others wait
            if _is_at(self._path, before):
                path.replace(self._path)
            else:  # another process uses the name now
                self._path, self._is_private = path, True
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
        """Sync the bytes to the disk and give them the name of the target in one step.

        A target that appeared meanwhile stays. Partial files of other releases that no process downloads are removed.
        Raises PartialFileSuperseded when the file was replaced or changed.
        """
        descriptor = self._open()
        os.fsync(descriptor)
        if not self.target.is_file():
            self._rename(descriptor)
        if _is_at(self._path, descriptor):
            self._path.unlink(missing_ok=True)
        elif self._path.exists() and self._remove_spoiled_target(descriptor):
            # A process replaced it after the comparison, possibly as it found its own wrong bytes in it.
            raise PartialFileSuperseded
        sync_folder(self.target.parent)
        self._remove_other_releases()

    def close(self) -> None:
        """Release the file; an empty or private one is removed."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        try:
            if self._is_private:
                self._path.unlink(missing_ok=True)
            else:
                self._remove_empty(descriptor)
            if not self.matches_published_digest:
                self._remove_spoiled_target(descriptor)
        finally:
            os.close(descriptor)

    def _open(self) -> int:
        if self._descriptor is None:
            raise ValueError("the file is not open")
        return self._descriptor

    def _open_shared(self) -> int | None:
        """Open the file shared by processes of this user, created if necessary; None if another entry has its name."""
        try:
            descriptor = os.open(self._path, _OPEN, 0o666)
        except OSError as error:
            if error.errno not in _REFUSED or not os.path.lexists(self._path):
                raise
            reason: str | None = f"it cannot be opened: {error.strerror}"
        else:
            reason = _refusal_reason(os.fstat(descriptor))
            if reason is None:
                return descriptor
            os.close(descriptor)
        _log.warning("partial_file_refused", file=str(self._path), reason=reason, remedy="remove it")
        return None

    def _private_path(self) -> Path:
        return self._path.with_name(f"{self._shared_name}.{secrets.token_hex(8)}")

    def _new_file(self) -> tuple[Path, int]:
        path = self._private_path()
        return path, os.open(path, _OPEN | os.O_EXCL, 0o666)

    def _rename(self, descriptor: int) -> None:
        """Give the file its final name by means of a link with a private name, which no other process replaces."""
        path = self._path if self._is_private else self._link()
        try:
            if not _is_at(path, descriptor) or os.fstat(descriptor).st_size != self.size:
                raise PartialFileSuperseded
            path.replace(self.target)
        finally:
            if path != self._path:  # a rename onto another link of the same file keeps both
                path.unlink(missing_ok=True)

    def _link(self) -> Path:
        path = self._private_path()
        try:
            os.link(self._path, path)
        except FileNotFoundError as error:
            raise PartialFileSuperseded from error
        except OSError:  # the file system has no links
            return self._path
        return path

    def _remove_empty(self, descriptor: int) -> None:
        if not os.fstat(descriptor).st_size and _is_at(self._path, descriptor):
            self._path.unlink(missing_ok=True)

    def _remove_other_releases(self) -> None:
        """Remove the partial files of other releases of the target, except those that another process downloads."""
        for left in self.target.parent.glob(f".{glob.escape(self.target.name)}.*.partial"):
            if left.name != self._shared_name:  # another machine may use that one now
                with suppress(OSError):
                    _remove_unlocked(left)

    def _remove_spoiled_target(self, descriptor: int) -> bool:
        """Remove the target if it is this file and has a wrong digest, and return whether it was removed.

        In that case another process that shares the file published it while this one wrote other bytes into it.
        """
        if not _is_at(self.target, descriptor) or _digest_of(descriptor) == self._expected.sha256:
            return False
        self.target.unlink(missing_ok=True)
        return True


def _refusal_reason(file: os.stat_result) -> str | None:
    """Return why an entry with the name of a partial file must not be written to; None if it may be."""
    if not stat.S_ISREG(file.st_mode):
        return "it is not a regular file"
    if file.st_nlink > 1:
        return "it has other names, too"
    return untrusted_reason(file)


def _remove_unlocked(path: Path) -> None:
    descriptor = os.open(path, _OPEN & ~os.O_CREAT)
    try:
        if _refusal_reason(os.fstat(descriptor)) is None and try_lock(descriptor) and _is_at(path, descriptor):
            path.unlink()
    finally:
        os.close(descriptor)


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
