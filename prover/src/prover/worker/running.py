"""The jobs that this instance proves, and the heartbeats that renew their leases."""

import asyncio
import enum
from collections.abc import Iterator
from contextlib import contextmanager

from prover.errors import QueueUnavailable
from prover.kernel.cancellation import CancelFlag
from prover.observability.metrics import Metrics
from prover.queue.jobs import Claim, LeaseState
from prover.queue.store import JobStore
from shared.process.logs import get_logger

_log = get_logger(__name__)


class StopCause(enum.Enum):
    """Reason for which an attempt was stopped."""

    LEASE_LOST = "lease_lost"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    DRAINED = "drained"


class RunningJob:
    """An attempt in progress. Belongs to the event loop; its thread uses only ``cancel``."""

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.cancel = CancelFlag()
        self.stopped: StopCause | None = None

    def stop(self, reason: StopCause) -> None:
        """Stop the attempt. The first reason counts, but a lost lease replaces it: the job is then not reported."""
        if self.stopped is None or reason is StopCause.LEASE_LOST:
            self.stopped = reason
        self.cancel.raise_flag()


class RunningJobs:
    """All attempts in progress of one instance."""

    def __init__(self, store: JobStore, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics
        self._jobs: set[RunningJob] = set()

    @contextmanager
    def working_on(self, claim: Claim) -> Iterator[RunningJob]:
        """Renew the lease of a job during the block, which must have reported the outcome to the queue at its end."""
        job = RunningJob(claim)
        self._jobs.add(job)
        try:
            yield job
        finally:
            self._jobs.remove(job)

    def stop_all(self, reason: StopCause) -> None:
        """Stop every attempt."""
        for job in list(self._jobs):
            job.stop(reason)

    async def beat(self, period_s: float) -> None:
        """Send heartbeats every ``period_s`` seconds until cancelled, also without jobs.

        They requeue the jobs of dead workers, too.
        """
        while True:
            await asyncio.sleep(period_s)
            await self._beat_once()

    async def _beat_once(self) -> None:
        jobs = list(self._jobs)
        try:
            beats = await self._store.heartbeat([job.claim for job in jobs])
        except QueueUnavailable as error:
            # Proving continues: if Redis returns before another worker claims the job, nothing is lost.
            _log.warning("heartbeat_failed", jobs=len(jobs), error=error.detail)
            return
        for job, beat in zip(jobs, beats, strict=True):
            if job not in self._jobs or beat is LeaseState.KEPT:
                continue  # the outcome was reported meanwhile
            if beat is LeaseState.LOST and job.stopped is not StopCause.LEASE_LOST:
                self._metrics.lease_losses.labels(job.claim.queue.queue_name).inc()
                _log.warning("lease_lost", job_id=job.claim.job_id, attempt=job.claim.attempt)
            job.stop(StopCause.LEASE_LOST if beat is LeaseState.LOST else StopCause.CANCELLED)
