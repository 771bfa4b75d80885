"""The timers of the queue: cron jobs of arq, each of whose times one instance runs."""

from datetime import UTC
from functools import partial
from typing import Any, cast

from arq.cron import CronJob, cron

from prover.observability.metrics import Metrics
from prover.queue import wake_ups
from prover.queue.connection import RedisConnection
from prover.queue.jobs import SweepKind
from prover.queue.store import JobStore
from prover.queue.tasks import end_tasks
from prover.settings import QueueSettings
from prover.worker.arq_worker import arq_worker
from shared.process.logs import get_logger

_log = get_logger(__name__)

_SWEEP_TIMEOUT_S = 60
_MISSED_SWEEPS = 3
"""Sweeps of dead workers' jobs that may fail to appear before no instance counts as the sweeper."""


class Timers:
    """Sweeps at the start of each instance, and at regular times on one of them."""

    def __init__(
        self, connection: RedisConnection, store: JobStore, owner: str, settings: QueueSettings, metrics: Metrics
    ) -> None:
        self._connection = connection
        self._store = store
        self._owner = owner
        self._metrics = metrics
        self._periods = {
            SweepKind.STUCK: settings.sweep_stuck_s,
            SweepKind.OLD_REQUESTS: settings.sweep_requests_s,
            SweepKind.FAILED: settings.sweep_failures_s,
            SweepKind.RESULTS: settings.sweep_results_s,
        }

    async def run(self) -> None:
        """Run the timers until cancelled; raises errors of Redis."""
        await self._store.sweep(SweepKind.STUCK)  # removes entries on which arq fails
        worker = arq_worker(
            self._connection,
            self._connection.keys.timer_queue,
            wake_ups.decode_timer,
            cron_jobs=[self._cron_job(kind) for kind in SweepKind],
            job_timeout=_SWEEP_TIMEOUT_S,
            timezone=UTC,
        )
        try:
            await worker.async_run()
        finally:
            await end_tasks(worker.tasks.values())

    def _cron_job(self, kind: SweepKind) -> CronJob:
        return cron(
            cast("Any", partial(self._sweep, kind)),
            name=f"{self._connection.keys.timer_queue}:{kind.value}",
            run_at_startup=True,
            **cast("Any", times(self._periods[kind])),
        )

    async def _sweep(self, kind: SweepKind, _: dict[Any, Any]) -> None:
        swept = await self._store.sweep(kind, self._owner, _MISSED_SWEEPS * self._periods[SweepKind.STUCK])
        self._metrics.count_sweep(kind.value, swept)
        if swept:
            _log.info("queue_swept", kind=kind.value, jobs=swept)


def times(period_s: float) -> dict[str, int | set[int]]:
    """Return arq's times for the longest period up to ``period_s`` that divides a minute, an hour or a day.

    The shortest period is a second.
    """
    if period_s >= 3600:
        return {"hour": _multiples(period_s / 3600, 24), "minute": 0, "second": 0}
    if period_s >= 60:
        return {"minute": _multiples(period_s / 60, 60), "second": 0}
    return {"second": _multiples(period_s, 60)}


def _multiples(longest: float, count: int) -> set[int]:
    step = max(step for step in range(1, count + 1) if count % step == 0 and step <= max(1, longest))
    return set(range(0, count, step))
