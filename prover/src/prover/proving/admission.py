"""Permits for proofs, held by the thread that computes.

A permit belongs to a thread, not to a request: the kernel may run on for a moment after a client disconnects. The
permit is held until it returns. It is one of the concurrent proofs and the working memory of the proof, or of all
proofs of one call. Waiting is bounded, and first come, first served: smaller proofs do not delay a large one forever.
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
_INITIAL_ESTIMATE_S = {False: 1.0, True: 15.0}
"""Assumed duration of a proof before one was measured; the key is True for batches."""

_MIB = 2**20


class _Ticket:
    def __init__(self, kind: CircuitKind, need_bytes: int, proofs: int) -> None:
        self.kind = kind
        self.need_bytes = need_bytes
        self.proofs = proofs
        self.notified = threading.Event()
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
        self._waiting_elsewhere: Counter[CircuitKind] = Counter()
        self._typical_s = {kind: _INITIAL_ESTIMATE_S[kind.is_batch] for kind in CircuitKind}
        metrics.working_memory_bytes.labels("budget").set(budget_bytes or 0)
        metrics.working_memory_bytes.labels("lent").set(0)

    @property
    def waiting(self) -> int:
        """Number of proofs that wait."""
        with self._lock:
            return self._count_waiting()

    def begin_waiting(self, kind: CircuitKind) -> None:
        """Count a proof that waits for a launch, which acquires one permit for several proofs.

        Raises TryAgainLater when too many wait already.
        """
        with self._lock:
            self._require_room()
            self._waiting_elsewhere[kind] += 1
            self._metrics.waiting.set(self._count_waiting())

    def end_waiting(self, kind: CircuitKind) -> None:
        """Stop counting a proof of ``begin_waiting``."""
        with self._lock:
            self._waiting_elsewhere[kind] -= 1
            self._metrics.waiting.set(self._count_waiting())

    def can_lend(self, need_bytes: int) -> bool:
        """Return True if the memory budget is at least ``need_bytes``."""
        return self._budget_bytes is None or need_bytes <= self._budget_bytes

    @contextmanager
    def permit(
        self, kind: CircuitKind, cancel: CancelFlag, need_bytes: int = 0, since: Sequence[float] = ()
    ) -> Iterator[float]:
        """Wait for a permit and hold it for the block; yield the seconds waited.

        It covers one proof, or one per time in ``since`` (of time.perf_counter) at which a proof of a launch began to
        wait. Those were counted by ``begin_waiting`` and are not refused again. Raises MemoryBudgetExceeded when the
        proof can never fit, TryAgainLater when too many wait already, Cancelled when the flag is raised first.
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
            ahead_s += sum(self._typical_s[other] for other, proofs in self._waiting_elsewhere.items() if proofs)
            own_s = self._typical_s[kind] if kind else min(self._typical_s.values())
            return max(1, ceil((ahead_s + own_s) / self._permits))

    def _acquire(self, ticket: _Ticket, cancel: CancelFlag, *, is_bounded: bool) -> None:
        self._require_possible(ticket)
        with self._lock:
            if not self._queue and self._fits(ticket):
                self._grant(ticket)
                return
            if is_bounded:
                self._require_room()
            self._queue.append(ticket)
            self._metrics.waiting.set(self._count_waiting())
        with cancel.watch(ticket.notified.set):
            ticket.notified.wait()
        with self._lock:
            if not ticket.granted:  # the flag was raised
                self._queue.remove(ticket)
                self._grant_next()  # those behind may be smaller
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
        return sum(ticket.proofs for ticket in self._queue) + self._waiting_elsewhere.total()

    def _require_room(self) -> None:
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
        ticket.notified.set()

    def _grant_next(self) -> None:
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
            self._grant_next()


def _ignore_start() -> None:
    """Ignore the start of a proof."""


@dataclass(frozen=True)
class AdmissionRequest:
    """Permit that a proof needs: its admission, its circuit family, and a callback for the start of its computation."""

    admission: Admission
    kind: CircuitKind
    begin: Callable[[], None] = _ignore_start
