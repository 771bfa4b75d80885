"""Protection of the memory of a process that holds keys, from other processes and from core files."""

import ctypes
import os
import resource
import sys

_PR_SET_DUMPABLE = 4


def protect_memory() -> str | None:
    """Make the process not dumpable until it ends: no core file, no debugger or reader without CAP_SYS_PTRACE.

    Returns why the kernel refused, None if it did not. Other systems than Linux get the limit of core files alone.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        return os.strerror(ctypes.get_errno())
    return None
