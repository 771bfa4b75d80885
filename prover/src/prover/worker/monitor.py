"""Metrics of the queue: counts of all instances, events of this one, availability of Redis."""

import asyncio

from prover.errors import QueueUnavailable, QueueUnusable
from prover.observability.metrics import CIRCUIT_TYPES, Metrics
from prover.queue.jobs import EventKind, JobEvent, QueueStats
from prover.queue.store import JobStore
from shared.process.logs import get_logger

_log = get_logger(__name__)

_PERIOD_S = 5.0
_PERIOD_WITHOUT_REDIS_S = 1.0

_FAILURES = (EventKind.FAILED, EventKind.CANCELLED, EventKind.EXPIRED, EventKind.QUARANTINED)
_SUBMISSIONS = {EventKind.SUBMITTED: "new", EventKind.DEDUPLICATED: "duplicate", EventKind.REFUSED: "refused"}


_REMOVED_REMEDY = (
    "find out which other clients write to Redis, and whether all instances have the same keys and release; the client "
    "is asked to send its request again"
)


class QueueMonitor:
    """Periodic update of the gauges of the queue."""

    def __init__(self, store: JobStore, owner: str, metrics: Metrics) -> None:
        self._store = store
        self._owner = owner
        self._metrics = metrics
        self._up: bool | None = None

    async def run(self) -> None:
        """Read the counts periodically until cancelled."""
        self._metrics.queue_configured.set(1)
        while True:
            await self._read()
            await asyncio.sleep(_PERIOD_S if self._up else _PERIOD_WITHOUT_REDIS_S)

    async def _read(self) -> None:
        fault: QueueUnavailable | None = None
        try:
            await self._store.check()
        except QueueUnusable as error:  # it may still return its counts
            fault = error
        except QueueUnavailable as error:
            self._note(error)
            self._metrics.sweeps_here.set(0)
            return
        try:
            self._show(await self._store.stats())
        except QueueUnavailable as error:
            fault = fault or error
            self._metrics.sweeps_here.set(0)
        self._note(fault)

    def _note(self, fault: QueueUnavailable | None) -> None:
        up = fault is None
        # The store logs the reason for which Redis cannot serve the queue.
        if up != self._up and fault is not None and not isinstance(fault, QueueUnusable):
            _log.warning("redis_unreachable", error=fault.detail)
        elif up != self._up and up:
            _log.info("redis_reached")
        self._up = up
        self._metrics.redis_up.set(up)

    def _show(self, stats: QueueStats) -> None:
        metrics = self._metrics
        depth = dict.fromkeys(CIRCUIT_TYPES, 0)
        for queue, counts in stats.queues.items():
            for kind, waiting in counts.waiting_by_type.items():
                depth[kind] += waiting
            metrics.queue_waiting.labels(queue.queue_name).set(counts.waiting)
            metrics.queue_processing.labels(queue.queue_name).set(counts.processing)
            metrics.queue_oldest_age_seconds.labels(queue.queue_name).set(counts.oldest_waiting_s)
            metrics.queue_bytes.labels(queue.queue_name).set(counts.payload_bytes)
        for kind, waiting in depth.items():
            metrics.queue_depth.labels(kind).set(waiting)
        metrics.queue_stuck.set(stats.stuck)
        metrics.sweeps_here.set(stats.sweeper == self._owner)


def count_removed_wake_ups(metrics: Metrics, entries: int = 1) -> None:
    """Count and log wake-ups that were removed because no instance can have written them."""
    metrics.queue_removals.labels("wake_up").inc(entries)
    _log.warning("wake_ups_removed", entries=entries, detail="no instance wrote them")


def count_event(metrics: Metrics, event: JobEvent) -> None:
    """Count and log an event that a call of this instance caused."""
    if event.kind in _SUBMISSIONS:
        metrics.jobs_submitted.labels(event.queue.queue_name, _SUBMISSIONS[event.kind]).inc()
    elif event.kind is EventKind.CLAIMED and event.waited_s is not None:
        metrics.queue_wait_seconds.labels(event.queue.label).observe(event.waited_s)
    elif event.kind is EventKind.COMPLETED:
        metrics.jobs_processed.labels("completed").inc()
    elif event.kind in _FAILURES:
        metrics.jobs_processed.labels("failed").inc()
    if event.kind is EventKind.REMOVED:
        metrics.queue_removals.labels("job").inc()
        _log.error("job_removed", job_id=event.job_id, reason=event.detail, remedy=_REMOVED_REMEDY)
    elif event.kind is EventKind.WAKE_UPS_REMOVED:
        count_removed_wake_ups(metrics, event.entries)
    elif event.kind is EventKind.EXPIRED:
        metrics.expired_jobs.labels(event.queue.queue_name).inc()
    elif event.kind is EventKind.QUARANTINED:
        metrics.quarantined_jobs.inc()
        _log.error("job_quarantined", job_id=event.job_id, circuit_type=event.circuit_type, reason=event.detail)
    elif event.kind is EventKind.LEASE_LOST:
        metrics.job_retries.labels("lease_ended").inc()
        _log.warning("job_reclaimed", job_id=event.job_id, circuit_type=event.circuit_type, reason=event.detail)
