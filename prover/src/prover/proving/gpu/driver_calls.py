"""Calls of a GPU's driver in progress, and which of them will never return: nothing can end those from outside."""

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from prover.kernel.cancellation import CancelFlag

STUCK_S = 30.0
"""A call that goes on for so long after it was cancelled is stuck; a proof looks at its flag several times a second."""
_LONGEST_COPY_S = 600.0
"""Copying a key, which no request cancels, counts as cancelled after this."""


class _Call:
    def __init__(self, due: float) -> None:
        self.due = due
        """When it should have begun to end, as time.monotonic() tells."""

    def end_now(self) -> None:
        """Note that it is asked to end."""
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
        with self._counted(_Call(time.monotonic() + _LONGEST_COPY_S)):
            yield

    def problem(self) -> str | None:
        """Say that a call is stuck, if one is."""
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
