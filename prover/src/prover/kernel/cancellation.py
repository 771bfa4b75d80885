"""Cancellation of running C code and waiting Python threads, and progress of running C code."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from prover.errors import Cancelled
from prover.kernel._native import ffi

Result = TypeVar("Result")


class CancelFlag:
    """A flag that any thread raises once; the kernel reads it between the stages of a proof."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watchers: list[Callable[[], None]] = []
        self.cell = ffi.new("g16_cancel *", 0)
        """The C flag, valid as long as this object."""

    @property
    def is_raised(self) -> bool:
        """True once the flag was raised."""
        return bool(self.cell[0])

    def raise_flag(self) -> None:
        """Request cancellation. Does not wait."""
        with self._lock:
            self.cell[0] = 1
            watchers = list(self._watchers)
        for watcher in watchers:
            watcher()

    def check(self) -> None:
        """Raise Cancelled if the flag was raised."""
        if self.is_raised:
            raise Cancelled

    def result_of(self, future: Future[Result]) -> Result:
        """Return the result of a future, or raise its error, once there is one; raise Cancelled if the flag is."""
        done = threading.Event()
        future.add_done_callback(lambda _: done.set())
        with self.watch(done.set):
            done.wait()
        self.check()
        return future.result()

    @contextmanager
    def watch(self, watcher: Callable[[], None]) -> Iterator[None]:
        """Call ``watcher`` when the flag is raised inside the block, at once if it already is."""
        with self._lock:
            self._watchers.append(watcher)
            raised = self.is_raised
        if raised:
            watcher()
        try:
            yield
        finally:
            with self._lock:
                self._watchers.remove(watcher)


class Progress:
    """Progress of a setup or of the writing of a prepared key, which any thread may read."""

    def __init__(self) -> None:
        self.cell = ffi.new("uint32_t *", 0)
        """The C counter, valid as long as this object."""

    @property
    def permille(self) -> int:
        """Thousandths done."""
        return min(int(self.cell[0]), 1000)


def cell_of(shared: CancelFlag | Progress | None) -> Any:
    """Return what C code reads or writes; NULL for none."""
    return ffi.NULL if shared is None else shared.cell
