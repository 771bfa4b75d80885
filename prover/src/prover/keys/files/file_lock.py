"""Locks on files, released when the process that holds them ends in any way."""

import fcntl


def try_lock(descriptor: int) -> bool | None:
    """Lock a file until it is closed, without waiting.

    Returns False if another process holds the lock, None if the file system has none: NFS requires a writable
    descriptor, and may have no locks at all.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True
