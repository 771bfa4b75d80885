"""The lock of the process that writes a prepared key; the next holder removes the files of a killed one."""

import contextlib
import errno
import glob
import os
import time
from collections.abc import Iterator
from pathlib import Path

from prover.kernel.cancellation import CancelFlag
from shared.process.file_lock import try_lock

_LOCK_POLL_S = 0.05
_ABANDONED_S = 24 * 3600
"""Age at which a file without a lock is abandoned; folding takes an hour."""


@contextlib.contextmanager
def preparation_lock(source: int, path: Path, cancel: CancelFlag, *, waits: bool = True) -> Iterator[bool]:
    """Exclude other processes from writing ``path`` during the block, and remove the files of a killed one.

    Yields False if another process holds the lock and ``waits`` is False. The lock is on the key file, of which
    ``source`` is a descriptor, so it leaves no file behind. NFS requires a writable descriptor for it (flock(2)), so
    there the lock is on a hidden file next to ``path``. Without locks in the file system, or if two key files share a
    name, the work may be done twice, and the last result stays. Raises OSError, Cancelled.
    """
    with contextlib.ExitStack() as stack:
        is_alone = _acquire(source, cancel, waits=waits)
        if is_alone is None:
            lock_file = stack.enter_context(_opened_lock_file(path))
            is_alone = _acquire(lock_file, cancel, waits=waits) if lock_file is not None else None
        if is_alone is not False:
            _remove_abandoned_files(path)
        yield is_alone is not False


def _acquire(descriptor: int, cancel: CancelFlag, *, waits: bool) -> bool | None:
    """Acquire a lock; False if another process holds it and ``waits`` is False, None if there are no locks."""
    while (acquired := try_lock(descriptor)) is False:
        cancel.check()
        if not waits:
            break
        time.sleep(_LOCK_POLL_S)
    return acquired


@contextlib.contextmanager
def _opened_lock_file(path: Path) -> Iterator[int | None]:
    """Yield the lock file, which is never removed, as that would allow two locks; None if there can be none."""
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path.with_name(f".{path.name}.lock"), flags, 0o660)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ELOOP, errno.EPERM):
            raise
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _remove_abandoned_files(path: Path) -> None:
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.partial"):
        with contextlib.suppress(OSError):
            if _is_abandoned(left):
                left.unlink(missing_ok=True)


def _is_abandoned(left: Path) -> bool:
    """Return whether no process writes to a file; a writer holds a lock on it (atomic_file). Raises OSError."""
    flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(left, os.O_RDWR | flags)
    except PermissionError:  # its writer died after it had made the file read-only
        descriptor = os.open(left, os.O_RDONLY | flags)
    try:
        acquired = try_lock(descriptor)
        if acquired is None:
            return time.time() - os.fstat(descriptor).st_ctime >= _ABANDONED_S
        return acquired
    finally:
        os.close(descriptor)
