"""Lists in a folder of keys, to which other users may write.

A planted pipe, device or huge file must neither keep a process waiting nor fill its memory.
"""

import errno
import os
import stat
from pathlib import Path

_LONGEST_BYTES = 2**22
"""Several times the size of a list of all published keys."""


def read_list(path: Path) -> bytes:
    """Return the bytes of a list; raises OSError for an entry that is not a regular file of at most 4 MiB."""
    with open(path, "rb", opener=_open_nonblocking) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        content = file.read(_LONGEST_BYTES + 1)
    if len(content) > _LONGEST_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {_LONGEST_BYTES} bytes")
    return content


def _open_nonblocking(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
