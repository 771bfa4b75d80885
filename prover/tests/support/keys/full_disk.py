"""A disk that fills up."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def disk_with_room(room: int) -> Iterator[None]:
    """Let ``os.write`` write ``room`` bytes in the block, and then fail."""
    write = os.write

    def write_while_there_is_room(descriptor: int, data: memoryview) -> int:
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = write(descriptor, data[:room])
        room -= written
        return written

    with pytest.MonkeyPatch.context() as full:
        full.setattr(os, "write", write_while_there_is_room)
        yield
