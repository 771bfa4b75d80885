"""Working memory of the kernel: large, page-aligned, reused, never copied."""

import mmap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prover.errors import OutOfMemory
from prover.kernel._native import ffi

_HELD_BYTES = 2**30


class ScratchPool:
    """A pool of scratch memory that keeps up to ``keep`` returned buffers for the next proofs.

    It holds 1 GiB of them in total. The system may take back the pages of the others, and does so before it ends a
    process for lack of memory. Pages come from the system on first touch, so a fresh buffer costs nothing until used.
    Safe for use by several threads.
    """

    def __init__(self, keep: int = 4) -> None:
        self._keep = keep
        self._lock = threading.Lock()
        self._free: list[mmap.mmap] = []

    @contextmanager
    def lend(self, size: int) -> Iterator[Any]:
        """Yield a C buffer of at least ``size`` bytes. Raises OutOfMemory when the system has none."""
        memory = self._take(size)
        buffer = ffi.from_buffer("unsigned char[]", memory, require_writable=True)
        try:
            yield buffer
        finally:
            ffi.release(buffer)
            self._give_back(memory)

    def close(self) -> None:
        """Return all kept memory to the operating system, and buffers in use when they are returned."""
        with self._lock:
            self._keep = 0
            free, self._free = self._free, []
        for memory in free:
            memory.close()

    def _take(self, size: int) -> mmap.mmap:
        with self._lock:
            fitting = [memory for memory in self._free if len(memory) >= size]
            if fitting:
                smallest = min(fitting, key=len)
                self._free.remove(smallest)
                return smallest
        try:
            # Pages of a shared mapping, the default, belong to a file in memory: each takes longer on its first touch.
            return mmap.mmap(-1, max(size, mmap.PAGESIZE), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, MemoryError, OverflowError) as error:
            raise OutOfMemory(
                f"{size} bytes of working memory are not available: add memory, "
                "prove fewer at a time, or use smaller batches"
            ) from error

    def _give_back(self, memory: mmap.mmap) -> None:
        dropped_buffers = []
        with self._lock:
            if sum(map(len, self._free)) + len(memory) <= _HELD_BYTES or _offer_to_system(memory):
                self._free.append(memory)
                self._free.sort(key=len)
            else:
                dropped_buffers.append(memory)
            while len(self._free) > self._keep:
                dropped_buffers.append(self._free.pop(0))
        for dropped in dropped_buffers:
            dropped.close()


def _offer_to_system(memory: mmap.mmap) -> bool:
    """Let the system take back pages of a buffer until they are written again; return False if it cannot."""
    try:
        memory.madvise(mmap.MADV_FREE)
    except OSError:  # not every kernel has it, nor every sandbox
        return False
    return True
