"""Permits to use the machine for a proof, held by the thread that computes.

A permit belongs to a thread, not to a request: when a client leaves, the kernel may still run for a
moment, and must be counted until it returns. A permit is a place and the working memory of the proof.
Waiting is bounded and first come, first served, so that a large proof is not overtaken for ever.
"""

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil

from prover.errors import MemoryBudgetExceeded, TryAgainLater
from prover.kernel.cancellation import CancelFlag
from prover.observability.metrics import Metrics
from shared.circuit_id import CircuitKind

_SMOOTHING = 0.2
_FIRST_GUESS_S = {False: 1.0, True: 15.0}
"""Duration of a proof of which none was seen yet, by whether it is a batch."""

_MIB = 2**20


class _Ticket:
    def __init__(self, kind: CircuitKind, need_bytes: int) -> None:
        self.kind = kind
        self.need_bytes = need_bytes
        self.called = threading.Event()
        self.granted = False


class Admission:
    """At most ``permits`` proofs at once in ``budget_bytes`` of memory, and ``waiting_limit`` waiting ones."""

    def __init__(self, permits: int, waiting_limit: int, metrics: Metrics, budget_bytes: int | None = None) -> None:
        self._permits = permits
        self._free = permits
        self._budget_bytes = budget_bytes
        self._used_bytes = 0
        self._waiting_limit = waiting_limit
        self._metrics = metrics
        self._lock = threading.Lock()
        self._queue: deque[_Ticket] = deque()
        self._typical_s = {kind: _FIRST_GUESS_S[kind.is_batch] for kind in CircuitKind}
        metrics.working_memory_bytes.labels("budget").set(budget_bytes or 0)
        metrics.working_memory_bytes.labels("lent").set(0)

    @property
    def waiting(self) -> int:
        """How many proofs wait."""
        return len(self._queue)

    @contextmanager
    def permit(self, kind: CircuitKind, cancel: CancelFlag, need_bytes: int = 0) -> Iterator[float]:
        """Wait for a permit and hold it for the block, which gets the seconds waited.

        Raises MemoryBudgetExceeded when the proof can never fit, TryAgainLater when too many wait already,
        Cancelled when the flag is raised first.
        """
        started = time.perf_counter()
        ticket = _Ticket(kind, need_bytes)
        self._acquire(ticket, cancel)
        granted = time.perf_counter()
        self._metrics.admission_wait_seconds.labels(kind.value).observe(granted - started)
        completed = False
        try:
            cancel.check()
            yield granted - started
            completed = True
        finally:
            self._release(ticket, time.perf_counter() - granted if completed else None)

    def retry_after_s(self, kind: CircuitKind | None = None) -> int:
        """Estimate in how many seconds a new proof would be admitted, at least 1, from durations measured so far."""
        with self._lock:
            ahead_s = sum(self._typical_s[ticket.kind] for ticket in self._queue)
            own_s = self._typical_s[kind] if kind else min(self._typical_s.values())
            return max(1, ceil((ahead_s + own_s) / self._permits))

    def _acquire(self, ticket: _Ticket, cancel: CancelFlag) -> None:
        self._require_possible(ticket)
        with self._lock:
            if not self._queue and self._fits(ticket):
                self._grant(ticket)
                return
            if len(self._queue) >= self._waiting_limit:
                raise TryAgainLater(f"{len(self._queue)} proofs are waiting already; try again later")
            self._queue.append(ticket)
            self._metrics.waiting.set(len(self._queue))
        with cancel.watch(ticket.called.set):
            ticket.called.wait()
        with self._lock:
            if not ticket.granted:  # only the flag can have called it
                self._queue.remove(ticket)
                self._call_next()  # those behind may be smaller
        if not ticket.granted:
            cancel.check()

    def _require_possible(self, ticket: _Ticket) -> None:
        if self._budget_bytes is not None and ticket.need_bytes > self._budget_bytes:
            raise MemoryBudgetExceeded(
                f"this proof needs {ceil(ticket.need_bytes / _MIB)} MiB of working memory, and the budget is "
                f"{self._budget_bytes // _MIB} MiB: add memory, prove fewer at a time and raise "
                "PROVER_PROVING__WORKING_MEMORY_BYTES, or use smaller batches"
            )

    def _fits(self, ticket: _Ticket) -> bool:
        if not self._free:
            return False
        return self._budget_bytes is None or self._used_bytes + ticket.need_bytes <= self._budget_bytes

    def _grant(self, ticket: _Ticket) -> None:
        self._free -= 1
        self._used_bytes += ticket.need_bytes
        self._metrics.working_memory_bytes.labels("lent").set(self._used_bytes)
        ticket.granted = True
        ticket.called.set()

    def _call_next(self) -> None:
        while self._queue and self._fits(self._queue[0]):
            self._grant(self._queue.popleft())
        self._metrics.waiting.set(len(self._queue))

    def _release(self, ticket: _Ticket, held_s: float | None) -> None:
        with self._lock:
            if held_s is not None:
                self._typical_s[ticket.kind] += _SMOOTHING * (held_s - self._typical_s[ticket.kind])
            self._free += 1
            self._used_bytes -= ticket.need_bytes
            self._metrics.working_memory_bytes.labels("lent").set(self._used_bytes)
            self._call_next()
