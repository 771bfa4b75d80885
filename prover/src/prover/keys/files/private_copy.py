"""Files read into private memory: a process that truncates a mapped file would kill this one."""

import contextlib
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

from prover.errors import KeyUnavailable, MalformedKey, OutOfMemory
from prover.kernel.cancellation import CancelFlag

_READ_BYTES = 8 * 2**20


@contextlib.contextmanager
def private_copy(path: Path, cancel: CancelFlag | None = None) -> Iterator[mmap.mmap]:
    """Yield the bytes of a file.

    Raises KeyUnavailable, MalformedKey for a file that is empty or truncated meanwhile, OutOfMemory or Cancelled.
    """
    try:
        data = _read(path, cancel)
    except MalformedKey as error:
        raise MalformedKey(f"{path}: {error.detail}", offset=error.offset) from error
    except OSError as error:
        raise KeyUnavailable(f"{path} cannot be read: {error.strerror}") from error
    with data:
        yield data


def room_for(size: int) -> mmap.mmap:
    """Return memory for the bytes of a file. Raises MalformedKey for none, and OutOfMemory."""
    if size == 0:
        raise MalformedKey("the file is empty")
    try:
        return mmap.mmap(-1, size)
    except (OSError, MemoryError, OverflowError) as error:
        raise OutOfMemory(f"{size} bytes for reading a key file are not available: add memory") from error


def read_pieces(descriptor: int, data: mmap.mmap, cancel: CancelFlag | None) -> Iterator[memoryview]:
    """Read a file into ``data`` and yield each piece. Raises OSError, MalformedKey for a truncated file, Cancelled."""
    done = 0
    with memoryview(data) as whole:
        while done < len(whole):
            if cancel is not None:
                cancel.check()
            with whole[done : done + _READ_BYTES] as room:
                count = os.preadv(descriptor, [room], done)
                if count == 0:
                    raise MalformedKey(f"the file was truncated to {done} bytes while it was read", offset=done)
                with room[:count] as piece:
                    yield piece
            done += count


def _read(path: Path, cancel: CancelFlag | None) -> mmap.mmap:
    with path.open("rb") as file:
        data = room_for(os.fstat(file.fileno()).st_size)
        for _ in read_pieces(file.fileno(), data, cancel):
            pass
    return data
