"""Permits to use the machine for a proof, held by the thread that computes.

A permit belongs to a thread, not to a request: when a client leaves, the kernel may still run for a
moment, and must be counted until it returns. Waiting is bounded and first come, first served.
"""

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil

from prover.errors import TryAgainLater
from prover.kernel.cancellation import CancelFlag
from prover.observability.metrics import Metrics
from shared.circuit_id import CircuitKind

_SMOOTHING = 0.2


class _Ticket:
    def __init__(self) -> None:
        self.called = threading.Event()
        self.granted = False


class Admission:
    """At most ``permits`` proofs at once and ``waiting_limit`` waiting ones."""

    def __init__(self, permits: int, waiting_limit: int, metrics: Metrics) -> None:
        self._permits = permits
        self._free = permits
        self._waiting_limit = waiting_limit
        self._metrics = metrics
        self._lock = threading.Lock()
        self._queue: deque[_Ticket] = deque()
        self._typical_s = 1.0

    @contextmanager
    def permit(self, kind: CircuitKind, cancel: CancelFlag) -> Iterator[float]:
        """Wait for a permit and hold it for the block, which gets the seconds waited.

        Raises TryAgainLater when too many wait already, Cancelled when the flag is raised first.
        """
        started = time.perf_counter()
        self._acquire(cancel)
        granted = time.perf_counter()
        self._metrics.admission_wait_seconds.labels(kind.value).observe(granted - started)
        try:
            cancel.check()
            yield granted - started
        finally:
            self._release(time.perf_counter() - granted)

    def retry_after_s(self) -> int:
        """Estimate in how many seconds a new proof would be admitted, at least 1."""
        with self._lock:
            ahead = len(self._queue) + 1
            return max(1, ceil(ahead * self._typical_s / self._permits))

    def _acquire(self, cancel: CancelFlag) -> None:
        with self._lock:
            if self._free and not self._queue:
                self._free -= 1
                return
            if len(self._queue) >= self._waiting_limit:
                raise TryAgainLater(f"{len(self._queue)} proofs are waiting already; try again later")
            ticket = _Ticket()
            self._queue.append(ticket)
            self._metrics.waiting.set(len(self._queue))
        with cancel.watch(ticket.called.set):
            ticket.called.wait()
        with self._lock:
            if not ticket.granted:  # only the flag can have called it
                self._queue.remove(ticket)
                self._metrics.waiting.set(len(self._queue))
        if not ticket.granted:
            cancel.check()

    def _release(self, held_s: float) -> None:
        with self._lock:
            self._typical_s += _SMOOTHING * (held_s - self._typical_s)
            if self._queue:
                ticket = self._queue.popleft()
                ticket.granted = True
                ticket.called.set()
                self._metrics.waiting.set(len(self._queue))
            else:
                self._free += 1
