"""One attempt at a claimed job: a thread parses and proves the body, then the outcome is reported to the queue."""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

from prover.errors import (
    Cancelled,
    CircuitDisabled,
    DevicePaused,
    KeyUnavailable,
    ProofTimedOut,
    ProverError,
    QueueUnavailable,
    RequestRejected,
    ShuttingDown,
    TryAgainLater,
)
from prover.keys.catalogue.circuits import PUBLISHED_CIRCUITS
from prover.keys.catalogue.selection import CircuitSelection
from prover.observability.metrics import CIRCUIT_TYPES, UNKNOWN_CIRCUIT, Metrics
from prover.proving.proof_making import Proof, device_facts
from prover.proving.request import read_envelope, read_task
from prover.proving.service import ProvingService
from prover.queue.jobs import Claim
from prover.queue.store import JobStore
from prover.worker.running import RunningJob, RunningJobs, StopCause
from prover.worker.supervisor import RETRY_S
from shared.process.logs import bind, get_logger

_log = get_logger(__name__)

_LONGEST_PAUSE_S = 30
_KEY_MISSING_PAUSE_S = 1.0
"""A free worker takes a job that came back within its poll interval."""

_CANCELLED = "cancelled"
_LEASE_LOST = "the lease was lost"


class Attempts:
    """Attempts at jobs of all circuit queues of an instance. Belongs to the event loop."""

    def __init__(
        self,
        store: JobStore,
        service: ProvingService,
        selection: CircuitSelection,
        metrics: Metrics,
        running: RunningJobs,
        executor: ThreadPoolExecutor,
        deadline_s: float,
    ) -> None:
        """``executor`` has a thread for every job that may run at once; ``deadline_s`` limits an attempt in seconds."""
        self._store = store
        self._service = service
        self._selection = selection
        self._metrics = metrics
        self._running = running
        self._executor = executor
        self._deadline_s = deadline_s
        self._leaving = asyncio.Event()
        self._gone = asyncio.Event()

    def leave(self) -> None:
        """End the pauses after failures: no further job starts."""
        self._leaving.set()

    def give_up(self) -> None:
        """Stop reporting outcomes to a Redis that does not answer; the leases of the jobs end."""
        self._gone.set()

    async def make(self, claim: Claim) -> None:
        """Prove a job and report the outcome; raises nothing for faults of the job or of Redis."""
        with bind(job_id=claim.job_id, attempt=claim.attempt), self._running.working_on(claim) as job:
            _log.info(
                "job_started",
                circuit_type=claim.circuit_type,
                circuit=claim.circuit,
                tree=claim.tree_id,
                batch_index=claim.batch_index,
                waited_s=round(claim.waited_s, 3),
            )
            pause_s = await self._attempt(job)
        if pause_s:
            await _sleep_unless(self._leaving, min(pause_s, _LONGEST_PAUSE_S))

    async def _attempt(self, job: RunningJob) -> float:
        """Return the seconds for which this instance should pause before it starts another job."""
        # The next job would fail in the same way, and another instance may be able to prove this one.
        impaired_s = 2.0**job.claim.attempt
        try:
            proof = await self._prove(job)
        except Cancelled:
            return await self._stopped(job)
        except RequestRejected as error:
            await self._failed(job, error)
            return 0
        except ProverError as error:
            # A temporary refusal is no fault of the job. Running out of memory may be.
            no_place = type(error) is TryAgainLater or isinstance(error, DevicePaused)
            blameless = no_place or isinstance(error, ShuttingDown)
            await self._put_back(job, error, count_attempt=not blameless, waits_on=no_place)
            # Other circuits can be proved, but at once this job would come back until its attempts are used up.
            return _KEY_MISSING_PAUSE_S if isinstance(error, KeyUnavailable) else impaired_s
        except Exception:  # noqa: BLE001 - the edge of a job: counted, logged with its traceback, tried again
            _log.exception("unexpected_error")
            self._metrics.panics.labels(_kind(job.claim)).inc()
            await self._put_back(job, ProverError(), count_attempt=True)
            return impaired_s
        await self._finished(job, proof)
        return 0

    async def _prove(self, job: RunningJob) -> Proof:
        loop = asyncio.get_running_loop()
        limit = loop.call_later(self._deadline_s, job.stop, StopCause.TIMED_OUT)
        context = contextvars.copy_context()
        try:
            return await loop.run_in_executor(self._executor, partial(context.run, self._work, job))
        finally:
            limit.cancel()

    def _work(self, job: RunningJob) -> Proof:
        body = job.claim.body
        task = read_task(read_envelope(body), PUBLISHED_CIRCUITS)
        if not self._selection.includes(task.circuit):
            raise CircuitDisabled(f"{task.circuit.name} is disabled on this instance")
        job.cancel.check()
        return self._service.prove(task, job.cancel)

    async def _finished(self, job: RunningJob, proof: Proof) -> None:
        timings = proof.timings
        duration_ms = round((timings.key_s + timings.prove_s + timings.verify_s) * 1000)
        if await self._report(lambda: self._store.finish(job.claim, proof.body, duration_ms)):
            self._count(job.claim, "ok")
            self._metrics.proof_bytes.labels(_kind(job.claim)).observe(len(proof.body))
            _log.info(
                "job_finished",
                circuit=proof.circuit.name,
                **device_facts(proof),
                duration_ms=duration_ms,
                key_ms=round(timings.key_s * 1000, 1),
                wait_ms=round(timings.wait_s * 1000, 1),
                prove_ms=round(timings.prove_s * 1000, 1),
            )

    async def _failed(self, job: RunningJob, error: RequestRejected) -> None:
        if await self._report(lambda: self._store.fail(job.claim, error.detail, deterministic=True)):
            self._count(job.claim, "client_error", error)
            _log.info("job_failed", code=error.code, error=error.detail)

    async def _stopped(self, job: RunningJob) -> bool:
        """Report an attempt that was stopped."""
        if job.stopped is StopCause.LEASE_LOST:
            _log.warning("outcome_ignored", detail=_LEASE_LOST)
            return False
        if job.stopped is StopCause.CANCELLED:
            if await self._report(lambda: self._store.fail(job.claim, _CANCELLED, deterministic=False)):
                self._count(job.claim, "rejected", Cancelled())
                _log.info("job_cancelled")
            return False
        if job.stopped is StopCause.DRAINED:
            await self._put_back(job, ShuttingDown(), count_attempt=False)
            return False
        late = ProofTimedOut(f"Proof generation timed out after {self._deadline_s:g} seconds.")
        await self._put_back(job, late, count_attempt=True)
        return False

    async def _put_back(
        self, job: RunningJob, error: ProverError, *, count_attempt: bool, waits_on: bool = False
    ) -> None:
        is_requeued = await self._report(
            lambda: self._store.requeue(job.claim, count_attempt=count_attempt, reason=error.detail, waits_on=waits_on)
        )
        if is_requeued:
            self._metrics.job_retries.labels("fault" if count_attempt else "handed_back").inc()
            if count_attempt:
                self._count(job.claim, "timeout" if isinstance(error, ProofTimedOut) else "error", error)
            _log.warning("job_requeued", code=error.code, error=error.detail, counted=count_attempt)

    async def _report(self, report: Callable[[], Awaitable[bool]]) -> bool:
        """Report until Redis answers; False when the lease was lost, or this instance has given up reporting."""
        while True:
            try:
                is_accepted = await report()
            except QueueUnavailable as error:
                if self._gone.is_set():
                    _log.warning("outcome_not_reported", error=error.detail)
                    return False
                await _sleep_unless(self._gone, RETRY_S)
            else:
                if not is_accepted:
                    _log.warning("outcome_ignored", detail=_LEASE_LOST)
                return is_accepted

    def _count(self, claim: Claim, status: str, error: ProverError | None = None) -> None:
        self._metrics.requests.labels(_kind(claim), status).inc()
        if error is not None:
            self._metrics.generation_errors.labels(_kind(claim), error.code).inc()


async def _sleep_unless(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)


def _kind(claim: Claim) -> str:
    return claim.circuit_type if claim.circuit_type in CIRCUIT_TYPES else UNKNOWN_CIRCUIT
