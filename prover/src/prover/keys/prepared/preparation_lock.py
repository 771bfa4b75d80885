"""One process at a time makes a prepared form; the next one clears up after one that was killed."""

import contextlib
import errno
import glob
import os
import time
from collections.abc import Iterator
from pathlib import Path

from prover.kernel.cancellation import CancelFlag
from prover.keys.files.file_lock import try_lock

_LOCK_POLL_S = 0.05
_ABANDONED_S = 24 * 3600
"""What has not been written to for so long is left over even where nobody can tell by a lock; folding takes an hour."""


@contextlib.contextmanager
def preparation_lock(source: int, path: Path, cancel: CancelFlag, *, waits: bool = True) -> Iterator[bool]:
    """Keep other processes from writing ``path`` meanwhile, and remove what one left that was killed.

    Gives False where another process is at it and is not waited for. The lock is on the key file (``source`` is a
    descriptor of it): it leaves nothing behind. NFS wants the right to write for that (flock(2)), so there the lock is
    on a hidden file beside ``path``. Where the file system has no locks, or two key files share a name, the work may be
    done twice, and the last result stays. Raises OSError, Cancelled.
    """
    with contextlib.ExitStack() as stack:
        is_alone = _taken(source, cancel, waits=waits)
        if is_alone is None:
            beside = stack.enter_context(_opened_beside(path))
            is_alone = _taken(beside, cancel, waits=waits) if beside is not None else None
        if is_alone is not False:
            _remove_remains(path)
        yield is_alone is not False


def _taken(descriptor: int, cancel: CancelFlag, *, waits: bool) -> bool | None:
    """Take a lock; False if another process has it and is not waited for, None where there are no locks."""
    while (taken := try_lock(descriptor)) is False:
        cancel.check()
        if not waits:
            break
        time.sleep(_LOCK_POLL_S)
    return taken


@contextlib.contextmanager
def _opened_beside(path: Path) -> Iterator[int | None]:
    """Open the file for the lock, which stays: who removed it would leave two locks. None if there can be none."""
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


def _remove_remains(path: Path) -> None:
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.partial"):
        with contextlib.suppress(OSError):
            if _is_abandoned(left):
                left.unlink(missing_ok=True)


def _is_abandoned(left: Path) -> bool:
    """Whether nobody writes to a file any more: who does has a lock on it (atomic_file). Raises OSError."""
    flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(left, os.O_RDWR | flags)
    except PermissionError:  # it was whole, and closed to everybody, when its writer died
        descriptor = os.open(left, os.O_RDONLY | flags)
    try:
        taken = try_lock(descriptor)
        if taken is None:
            return time.time() - os.fstat(descriptor).st_ctime >= _ABANDONED_S
        return taken
    finally:
        os.close(descriptor)
