"""The jobs that this instance works on, and the signs of life that keep them its own."""

import asyncio
import enum
from collections.abc import Iterator
from contextlib import contextmanager

from prover.errors import QueueUnavailable
from prover.kernel.cancellation import CancelFlag
from prover.observability.metrics import Metrics
from prover.queue.jobs import Beat, Claim
from prover.queue.store import JobStore
from shared.logs import get_logger

_log = get_logger(__name__)


class Stop(enum.Enum):
    """Why an attempt was told to stop."""

    LEASE_LOST = "lease_lost"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    DRAINED = "drained"


class RunningJob:
    """An attempt in progress. Belongs to the event loop; its thread sees the flag alone."""

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.cancel = CancelFlag()
        self.stopped: Stop | None = None

    def stop(self, why: Stop) -> None:
        """Tell the attempt to stop; the first reason holds, but nobody else's job is reported on."""
        if self.stopped is None or why is Stop.LEASE_LOST:
            self.stopped = why
        self.cancel.raise_flag()


class RunningJobs:
    """All attempts in progress of one instance."""

    def __init__(self, store: JobStore, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics
        self._jobs: set[RunningJob] = set()

    @contextmanager
    def working_on(self, claim: Claim) -> Iterator[RunningJob]:
        """Keep the lease of a job for the block, which must have told the queue the outcome at its end."""
        job = RunningJob(claim)
        self._jobs.add(job)
        try:
            yield job
        finally:
            self._jobs.remove(job)

    def stop_all(self, why: Stop) -> None:
        """Tell every attempt to stop."""
        for job in list(self._jobs):
            job.stop(why)

    async def beat(self, period_s: float) -> None:
        """Renew all leases again and again, until cancelled; without any, only what heartbeats do for others."""
        while True:
            await asyncio.sleep(period_s)
            await self._beat_once()

    async def _beat_once(self) -> None:
        jobs = list(self._jobs)
        try:
            beats = await self._store.heartbeat([job.claim for job in jobs])
        except QueueUnavailable as error:
            # Proving goes on: when Redis returns before anybody took the job over, nothing is lost.
            _log.warning("heartbeat_failed", jobs=len(jobs), error=error.detail)
            return
        for job, beat in zip(jobs, beats, strict=True):
            if job not in self._jobs or beat is Beat.KEPT:
                continue  # what was reported meanwhile is no loss
            if beat is Beat.LOST and job.stopped is not Stop.LEASE_LOST:
                self._metrics.lease_losses.labels(job.claim.lane.queue_name).inc()
                _log.warning("lease_lost", job_id=job.claim.job_id, attempt=job.claim.attempt)
            job.stop(Stop.LEASE_LOST if beat is Beat.LOST else Stop.CANCELLED)
