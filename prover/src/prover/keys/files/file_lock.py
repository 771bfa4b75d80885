"""Locks on files, which end with the process that holds them, however that ends."""

import fcntl


def try_lock(descriptor: int) -> bool | None:
    """Lock a file until it is closed, without waiting.

    False where another process holds it, None where the file system has no such lock: NFS wants a descriptor that may
    write, and may have none at all.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True
