"""Permits for proofs, held by the threads that compute.

A permit belongs to a thread, not to a request: the kernel may run on for a moment after a client disconnects. The
permit is held until it returns. It is one of the concurrent calls of devices, and the working memory of the call. The
proofs that a device makes in one call share a permit.

Waiting is bounded, and first come, first served, with one exception. The first call that lacks memory may be passed by
calls that do not need its device (those of the CPU need none) and together take no more than the budget without its own
need. So it waits only for calls that were granted before it lacked memory, and small proofs do not wait for it.
"""

import threading
import time
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil

from prover.errors import MemoryBudgetExceeded, TryAgainLater
from prover.kernel.cancellation import CancelFlag
from prover.observability.metrics import Metrics
from shared.requests.circuit_id import CircuitKind

_SMOOTHING = 0.2
_INITIAL_ESTIMATE_S = {False: 1.0, True: 15.0}
"""Assumed duration of a proof before one was measured; the key is True for batches."""

_MIB = 2**20


class Demand:
    """Needs of a proof. A device that makes several proofs in one call overrides all members."""

    device: Hashable = None
    """Device that makes at most ``calls_at_once`` calls at once; None without such a limit."""
    calls_at_once = 1
    maximum = 1
    """Maximum proofs of one call."""

    def __init__(self, memory_bytes: int = 0) -> None:
        self._memory_bytes = memory_bytes

    def memory_of(self, proofs: int) -> int:  # noqa: ARG002 - one proof, unless overridden
        """Return the working memory in bytes of a call that makes ``proofs`` proofs."""
        return self._memory_bytes

    def shares_call_with(self, other: "Demand") -> bool:  # noqa: ARG002 - as above
        """Return True if one call can make both proofs."""
        return False


class Permit:
    """The right of a thread to have a device make its proof; used by one thread."""

    def __init__(self, admission: "Admission", kind: CircuitKind, cancel: CancelFlag, demand: Demand) -> None:
        self.kind = kind
        self.cancel = cancel
        self.demand = demand
        self.wait_s = 0.0
        """Seconds waited so far."""
        self.notified = threading.Event()
        """Set when the permit is granted, or the flag raised."""
        self.call: _Call | None = None
        """Call that it is for; None while it waits."""
        self.passing_bytes = 0
        """Memory of the calls in progress that passed it."""
        self._admission = admission

    @property
    def sharers(self) -> "Sequence[Permit]":
        """Permits of the proofs that its call makes, the oldest first."""
        return self.call.permits if self.call else ()

    def begin_call(self) -> bool:
        """Return True to one of the threads that share the call, which must make it for all."""
        return self.call is not None and self.call.unclaimed.acquire(blocking=False)

    def end_call(self) -> None:
        """Release the call for all sharers, before their blocks end."""
        self._admission.end_call(self)

    def renew(self, demand: Demand) -> None:
        """Exchange it for the permit of another call. Waits, but is not refused for the number of waiting proofs.

        Raises MemoryBudgetExceeded or Cancelled; the permit is then released.
        """
        self._admission.renew(self, demand)


class _Call:
    """A call of a device with its share of the limits. The lock of the admission protects it."""

    def __init__(self, permits: list[Permit], passed: Permit | None = None) -> None:
        self.permits = tuple(permits)
        self.passed = passed
        """Waiting permit that it passed."""
        self.demand = permits[0].demand
        self.memory_bytes = self.demand.memory_of(len(permits))
        self.granted_at = time.perf_counter()
        self.holders = len(permits)
        self.is_ended = False
        self.unclaimed = threading.Lock()
        """Acquired by the thread that makes the call, and never released."""


class Admission:
    """At most ``permits`` calls at once in ``budget_bytes`` of memory, and ``waiting_limit`` waiting proofs."""

    def __init__(self, permits: int, waiting_limit: int, metrics: Metrics, budget_bytes: int | None = None) -> None:
        self._permits = permits
        self._free = permits
        self._budget_bytes = budget_bytes
        self._used_bytes = 0
        self._waiting_limit = waiting_limit
        self._metrics = metrics
        self._lock = threading.Lock()
        self._queue: list[Permit] = []
        self._calls_of: Counter[Hashable] = Counter()
        self._typical_s = {kind: _INITIAL_ESTIMATE_S[kind.is_batch] for kind in CircuitKind}
        metrics.working_memory_bytes.labels("budget").set(budget_bytes or 0)
        metrics.working_memory_bytes.labels("lent").set(0)

    @property
    def waiting(self) -> int:
        """Number of proofs that wait."""
        with self._lock:
            return len(self._queue)

    @property
    def used_bytes(self) -> int:
        """Working memory of the calls in progress."""
        with self._lock:
            return self._used_bytes

    @property
    def has_free_permit(self) -> bool:
        """True if a proof would get a permit now, if its memory and its device are free too."""
        with self._lock:
            return self._free > 0 and not self._queue

    @contextmanager
    def permit(self, kind: CircuitKind, cancel: CancelFlag, demand: Demand | None = None) -> Iterator[Permit]:
        """Wait for a permit and hold it for the block.

        Raises MemoryBudgetExceeded when the proof can never fit, TryAgainLater when too many wait already, Cancelled
        when the flag is raised first.
        """
        permit = Permit(self, kind, cancel, demand or Demand())
        self._acquire(permit, is_bounded=True)
        completed = False
        try:
            cancel.check()
            yield permit
            completed = True
        finally:
            self._leave(permit, completed=completed)

    def end_call(self, permit: Permit) -> None:
        """Release the call of a permit for all that share it."""
        with self._lock:
            if permit.call is not None:
                self._end(permit.call, completed=True)

    def renew(self, permit: Permit, demand: Demand) -> None:
        """Exchange a permit; see Permit.renew."""
        self._leave(permit, completed=False)
        permit.demand = demand
        self._acquire(permit, is_bounded=False)

    def retry_after_s(self, kind: CircuitKind | None = None) -> int:
        """Estimate in how many seconds a new proof would be admitted, at least 1, from durations measured so far."""
        with self._lock:
            alone = [permit.kind for permit in self._queue if permit.demand.maximum == 1]
            together = {permit.kind for permit in self._queue if permit.demand.maximum > 1}
            ahead_s = sum(self._typical_s[other] for other in (*alone, *together))
            own_s = self._typical_s[kind] if kind else min(self._typical_s.values())
            return max(1, ceil((ahead_s + own_s) / self._permits))

    def _acquire(self, permit: Permit, *, is_bounded: bool) -> None:
        self._require_possible(permit.demand)
        started = time.perf_counter()
        permit.notified = threading.Event()
        with self._lock:
            self._queue.append(permit)
            self._grant_next()
            ahead = len(self._queue) - 1
            if permit.call is None and is_bounded and ahead >= self._waiting_limit:
                self._stop_waiting(permit)
                raise TryAgainLater(f"{ahead} proofs are waiting already; try again later")
        with permit.cancel.watch(permit.notified.set):
            permit.notified.wait()
        with self._lock:
            if permit.call is None:  # the flag was raised
                self._stop_waiting(permit)
                self._grant_next()  # those behind may be smaller
        waited_s = time.perf_counter() - started
        permit.wait_s += waited_s
        self._metrics.admission_wait_seconds.labels(permit.kind.value).observe(waited_s)
        if permit.call is None:
            permit.cancel.check()

    def _require_possible(self, demand: Demand) -> None:
        need_bytes = demand.memory_of(1)
        if self._budget_bytes is not None and need_bytes > self._budget_bytes:
            raise MemoryBudgetExceeded(
                f"this proof needs {ceil(need_bytes / _MIB)} MiB of working memory, and the budget is "
                f"{self._budget_bytes // _MIB} MiB: add memory, prove fewer at a time and raise "
                "PROVER_PROVING__WORKING_MEMORY_BYTES, or use smaller batches"
            )

    def _leave(self, permit: Permit, *, completed: bool) -> None:
        """Release a permit; its call ends with the last one."""
        with self._lock:
            call, permit.call = permit.call, None
            if call is None:
                return
            call.holders -= 1
            if not call.holders:
                self._end(call, completed=completed)

    # ---- the caller of what follows holds the lock -----------------------------------------------

    def _stop_waiting(self, permit: Permit) -> None:
        self._queue.remove(permit)
        self._metrics.waiting.set(len(self._queue))

    def _grant_next(self) -> None:
        """Grant permits in order, without those whose device makes as many calls as it can."""
        blocked: _Call | None = None
        for permit in tuple(self._queue):
            if not self._free:
                break
            if permit.call is not None or self._is_busy(permit.demand):
                continue
            if blocked is not None:
                self._let_pass(permit, blocked)
                continue
            # The calls that passed it must not delay it: its own room may not grow into theirs.
            room_bytes = None if self._budget_bytes is None else self._budget_bytes - permit.passing_bytes
            call = _Call(self._sharers_of(permit, room_bytes))
            if self._budget_bytes is None or self._used_bytes + call.memory_bytes <= self._budget_bytes:
                self._grant(call)
            else:
                blocked = call
        self._metrics.waiting.set(len(self._queue))

    def _let_pass(self, permit: Permit, blocked: _Call) -> None:
        """Grant a permit if its call delays a call that lacks memory no further."""
        assert self._budget_bytes is not None  # noqa: S101 - a call lacks memory
        passed = blocked.permits[0]
        left_over_bytes = self._budget_bytes - blocked.memory_bytes - passed.passing_bytes
        room_bytes = min(left_over_bytes, self._budget_bytes - self._used_bytes)
        needs_same_device = permit.demand.device is not None and permit.demand.device == blocked.demand.device
        if not needs_same_device and permit.demand.memory_of(1) <= room_bytes:
            self._grant(_Call(self._sharers_of(permit, room_bytes), passed))

    def _is_busy(self, demand: Demand) -> bool:
        return demand.device is not None and self._calls_of[demand.device] >= demand.calls_at_once

    def _sharers_of(self, first: Permit, room_bytes: int | None) -> list[Permit]:
        """Return a waiting permit and those behind it that its call can serve within ``room_bytes``."""
        demand = first.demand
        if demand.maximum == 1:
            return [first]
        sharers = [
            first,
            *(other for other in self._queue if other is not first and demand.shares_call_with(other.demand)),
        ]
        del sharers[demand.maximum :]
        while len(sharers) > 1 and room_bytes is not None and demand.memory_of(len(sharers)) > room_bytes:
            sharers.pop()
        return sharers

    def _grant(self, call: _Call) -> None:
        self._count(call, 1)
        for permit in call.permits:
            self._queue.remove(permit)
            permit.call = call
            permit.notified.set()

    def _end(self, call: _Call, *, completed: bool) -> None:
        if call.is_ended:
            return
        call.is_ended = True
        if completed:
            kind = call.permits[0].kind
            held_s = time.perf_counter() - call.granted_at
            self._typical_s[kind] += _SMOOTHING * (held_s - self._typical_s[kind])
        self._count(call, -1)
        self._grant_next()

    def _count(self, call: _Call, sign: int) -> None:
        """Add the share of a call to what is in use, or subtract it."""
        self._free -= sign
        self._used_bytes += sign * call.memory_bytes
        if call.passed is not None:
            call.passed.passing_bytes += sign * call.memory_bytes
        self._calls_of[call.demand.device] += sign
        self._metrics.working_memory_bytes.labels("lent").set(self._used_bytes)
        self._metrics.active_jobs.inc(sign * len(call.permits))
