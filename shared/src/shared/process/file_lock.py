"""Locks on files, released when the process that holds them ends in any way."""

import fcntl


def lock(descriptor: int) -> None:
    """Lock a file until it is closed, without waiting.

    Raises BlockingIOError if another process holds the lock, another OSError if the file system has none: NFS requires
    a writable descriptor, and may have no locks at all.
    """
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def try_lock(descriptor: int) -> bool | None:
    """Lock a file as ``lock`` does; return False if another process holds the lock, None if there are no locks."""
    try:
        lock(descriptor)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True
