"""Files that are written atomically.

The bytes go to a hidden file next to the target, are synced to the disk, and get the target's name in one step. If the
block ends early, even by an exception of a signal handler, the target stays as it was and the hidden file is removed.
"""

import contextlib
import errno
import mmap
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from prover.errors import DiskFull, SettingsInvalid
from shared.process.file_lock import try_lock

HUGE_PAGES_FROM = 64 * 2**20
"""Bytes of a file. Smaller keys gain nothing, and in huge pages parts that proofs do not read become resident."""

_NEW_FILE = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC
_NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)
_HUGE_PAGE = 2 * 2**20


def require_free(path: Path, *, force: bool) -> None:
    """Raise SettingsInvalid unless a file may be written at ``path``; ``force`` allows replacing one."""
    with explained(path):
        if not path.parent.is_dir():
            raise SettingsInvalid(f"cannot write {path}: directory {path.parent} does not exist; create it first")
        if path.is_dir() or (path.exists() and not path.is_file()):
            raise SettingsInvalid(f"cannot write {path}: it is not a regular file")
        if not force and (path.exists() or path.is_symlink()):
            raise SettingsInvalid(_exists_already(path))
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise SettingsInvalid(f"cannot write {path}: permission denied in {path.parent}; choose a writable folder")


def _exists_already(path: Path) -> str:
    return f"{path} exists already; pass --force to replace it, or choose another name"


@contextlib.contextmanager
def atomic_file(path: Path, *, force: bool = False) -> Iterator[BinaryIO]:
    """Yield a file to fill, which becomes ``path`` when the block ends without an error.

    Raises SettingsInvalid when ``path`` exists without ``force``, or cannot be written.
    """
    require_free(path, force=force)
    with explained(path):
        hidden, descriptor = _new_locked(path)
    try:
        with os.fdopen(descriptor, "r+b") as file:
            yield file
            with explained(path):
                file.flush()
                os.fsync(file.fileno())
                _publish(hidden, path, force=force)
        with explained(path):
            sync_folder(path.parent)
    finally:
        hidden.unlink(missing_ok=True)


def _new_locked(path: Path) -> tuple[Path, int]:
    """Create a hidden file next to a target, locked until it is closed: locked files are not cleaned up."""
    while True:
        hidden = path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
        descriptor = os.open(hidden, _NEW_FILE, 0o666)
        try_lock(descriptor)
        if os.fstat(descriptor).st_nlink:
            return hidden, descriptor
        os.close(descriptor)  # a cleanup removed it between the two steps


@contextlib.contextmanager
def mapped(file: BinaryIO, size: int) -> Iterator[mmap.mmap]:
    """Yield ``size`` writable bytes of an empty file; raises OSError when the disk has no room for them.

    The space is reserved, since a write through a map to a full disk would end the process. In large files zeros are
    written in blocks of a huge page, so that Linux caches them in huge pages. What is written through a map alone is
    cached in pages of 4 KiB, with which sums of points take longer (prover/docs/explanation/kernel-changes.md, "Large
    sums").
    """
    os.posix_fallocate(file.fileno(), 0, size)
    if size >= HUGE_PAGES_FROM:
        zeros = bytes(_HUGE_PAGE)
        file.writelines(zeros[: size - start] for start in range(0, size, _HUGE_PAGE))
        file.flush()
    with mmap.mmap(file.fileno(), size) as view:
        yield view


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn failures of the file system in the block into SettingsInvalid, or DiskFull, that names ``path``."""
    try:
        yield
    except OSError as error:
        reason = f"cannot write {path}: {error.strerror}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"{reason}; free some space or choose another disk") from error
        raise SettingsInvalid(reason) from error


def _publish(hidden: Path, path: Path, *, force: bool) -> None:
    if not force:
        try:
            os.link(hidden, path)  # unlike a rename, this never replaces a file that appeared meanwhile
        except FileExistsError as error:
            raise SettingsInvalid(_exists_already(path)) from error
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
        else:
            return
    hidden.replace(path)


def sync_folder(folder: Path) -> None:
    """Sync new names in a folder to the disk; raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # unsupported by some file systems
            raise
    finally:
        os.close(descriptor)
