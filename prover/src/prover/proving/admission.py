"""Permits to use the machine for a proof, held by the thread that computes.

A permit belongs to a thread, not to a request: when a client leaves, the kernel may still run for a
moment, and must be counted until it returns. A permit is a place and the working memory of the proof, or of all that
one call makes. Waiting is bounded and first come, first served, so that a large proof is not overtaken for ever.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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
    def __init__(self, kind: CircuitKind, need_bytes: int, proofs: int) -> None:
        self.kind = kind
        self.need_bytes = need_bytes
        self.proofs = proofs
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
        self._elsewhere: Counter[CircuitKind] = Counter()
        self._typical_s = {kind: _FIRST_GUESS_S[kind.is_batch] for kind in CircuitKind}
        metrics.working_memory_bytes.labels("budget").set(budget_bytes or 0)
        metrics.working_memory_bytes.labels("lent").set(0)

    @property
    def waiting(self) -> int:
        """How many proofs wait."""
        with self._lock:
            return self._count_waiting()

    def begin_waiting(self, kind: CircuitKind) -> None:
        """Count a proof that waits elsewhere, to ask for a permit together with others.

        Raises TryAgainLater when too many wait already.
        """
        with self._lock:
            self._require_place()
            self._elsewhere[kind] += 1
            self._metrics.waiting.set(self._count_waiting())

    def end_waiting(self, kind: CircuitKind) -> None:
        """Count it no more."""
        with self._lock:
            self._elsewhere[kind] -= 1
            self._metrics.waiting.set(self._count_waiting())

    def can_lend(self, need_bytes: int) -> bool:
        """Whether the budget holds so much."""
        return self._budget_bytes is None or need_bytes <= self._budget_bytes

    @contextmanager
    def permit(
        self, kind: CircuitKind, cancel: CancelFlag, need_bytes: int = 0, since: Sequence[float] = ()
    ) -> Iterator[float]:
        """Wait for a permit and hold it for the block, which gets the seconds waited.

        It is for one proof, or for as many as waited elsewhere ``since`` these times (of time.perf_counter); those are
        not refused for their number. Raises MemoryBudgetExceeded when the proof can never fit, TryAgainLater when too
        many wait already, Cancelled when the flag is raised first.
        """
        started = time.perf_counter()
        ticket = _Ticket(kind, need_bytes, len(since) or 1)
        self._acquire(ticket, cancel, is_bounded=not since)
        granted = time.perf_counter()
        for began in since or (started,):
            self._metrics.admission_wait_seconds.labels(kind.value).observe(granted - began)
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
            ahead_s += sum(self._typical_s[other] for other, proofs in self._elsewhere.items() if proofs)
            own_s = self._typical_s[kind] if kind else min(self._typical_s.values())
            return max(1, ceil((ahead_s + own_s) / self._permits))

    def _acquire(self, ticket: _Ticket, cancel: CancelFlag, *, is_bounded: bool) -> None:
        self._require_possible(ticket)
        with self._lock:
            if not self._queue and self._fits(ticket):
                self._grant(ticket)
                return
            if is_bounded:
                self._require_place()
            self._queue.append(ticket)
            self._metrics.waiting.set(self._count_waiting())
        with cancel.watch(ticket.called.set):
            ticket.called.wait()
        with self._lock:
            if not ticket.granted:  # only the flag can have called it
                self._queue.remove(ticket)
                self._call_next()  # those behind may be smaller
        if not ticket.granted:
            cancel.check()

    def _require_possible(self, ticket: _Ticket) -> None:
        if self._budget_bytes is not None and not self.can_lend(ticket.need_bytes):
            raise MemoryBudgetExceeded(
                f"this proof needs {ceil(ticket.need_bytes / _MIB)} MiB of working memory, and the budget is "
                f"{self._budget_bytes // _MIB} MiB: add memory, prove fewer at a time and raise "
                "PROVER_PROVING__WORKING_MEMORY_BYTES, or use smaller batches"
            )

    def _count_waiting(self) -> int:
        return sum(ticket.proofs for ticket in self._queue) + self._elsewhere.total()

    def _require_place(self) -> None:
        waiting = self._count_waiting()
        if waiting >= self._waiting_limit:
            raise TryAgainLater(f"{waiting} proofs are waiting already; try again later")

    def _fits(self, ticket: _Ticket) -> bool:
        if not self._free:
            return False
        return self._budget_bytes is None or self._used_bytes + ticket.need_bytes <= self._budget_bytes

    def _grant(self, ticket: _Ticket) -> None:
        self._free -= 1
        self._used_bytes += ticket.need_bytes
        self._metrics.working_memory_bytes.labels("lent").set(self._used_bytes)
        self._metrics.active_jobs.inc(ticket.proofs)
        ticket.granted = True
        ticket.called.set()

    def _call_next(self) -> None:
        while self._queue and self._fits(self._queue[0]):
            self._grant(self._queue.popleft())
        self._metrics.waiting.set(self._count_waiting())

    def _release(self, ticket: _Ticket, held_s: float | None) -> None:
        with self._lock:
            if held_s is not None:
                self._typical_s[ticket.kind] += _SMOOTHING * (held_s - self._typical_s[ticket.kind])
            self._free += 1
            self._used_bytes -= ticket.need_bytes
            self._metrics.working_memory_bytes.labels("lent").set(self._used_bytes)
            self._metrics.active_jobs.dec(ticket.proofs)
            self._call_next()


def _untold() -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class AdmissionRequest:
    """A request on its way to a permit; ``begin`` is told when its proof is begun."""

    admission: Admission
    kind: CircuitKind
    begin: Callable[[], None] = _untold
