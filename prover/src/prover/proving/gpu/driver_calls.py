"""Calls of a GPU's driver that are in progress, and detection of calls that never return, which nothing can end."""

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from prover.kernel.cancellation import CancelFlag

STUCK_S = 30.0
"""Seconds after its cancellation at which a call counts as stuck; a proof checks its flag several times a second."""
_MAXIMUM_COPY_S = 600.0
"""Seconds after which copying a key counts as cancelled, since no request cancels it."""
_MAXIMUM_FREE_S = 120.0
"""Seconds after which freeing a key counts as cancelled. The driver waits for running proofs first."""


class _Call:
    def __init__(self, due: float) -> None:
        self.due = due
        """Time of its cancellation, of time.monotonic()."""

    def end_now(self) -> None:
        """Record the cancellation."""
        self.due = min(self.due, time.monotonic())


class GpuCalls:
    """The calls of one GPU. All methods may be called from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: set[_Call] = set()

    @contextmanager
    def proof(self, cancel: CancelFlag) -> Iterator[None]:
        """Count the block as a proof that ``cancel`` ends."""
        call = _Call(math.inf)
        with self._counted(call), cancel.watch(call.end_now):
            yield

    @contextmanager
    def copy(self) -> Iterator[None]:
        """Count the block as the copy of a key."""
        with self._counted(_Call(time.monotonic() + _MAXIMUM_COPY_S)):
            yield

    @contextmanager
    def free(self) -> Iterator[None]:
        """Count the block as freeing the copy of a key."""
        with self._counted(_Call(time.monotonic() + _MAXIMUM_FREE_S)):
            yield

    def problem(self) -> str | None:
        """Return a description of a stuck call, None without one."""
        now = time.monotonic()
        with self._lock:
            late_s = max((now - call.due for call in self._calls), default=0.0)
        return f"a call has not returned from the driver for {late_s:.0f} seconds" if late_s > STUCK_S else None

    @contextmanager
    def _counted(self, call: _Call) -> Iterator[None]:
        with self._lock:
            self._calls.add(call)
        try:
            yield
        finally:
            with self._lock:
                self._calls.discard(call)
