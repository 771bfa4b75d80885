"""Protection of the memory of a process that holds keys, from other processes and from core files."""

import ctypes
import os
import resource
import sys

_PR_SET_DUMPABLE = 4


def protect_memory() -> str | None:
    """Make the process not dumpable until it ends: no core file, no debugger or reader without CAP_SYS_PTRACE.

    Returns the reason of a refusal by the kernel, None if it agreed. Systems other than Linux only limit core files.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        return os.strerror(ctypes.get_errno())
    return None
