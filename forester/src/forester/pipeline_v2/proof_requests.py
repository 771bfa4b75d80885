"""Requests of the proofs of one tree, from the prover into the journal; the ledger has their states.

Requests belong to the tree, not to the caller: they continue when a window ends or a round is cancelled. A finished
proof is stored even if earlier ones failed: it fits once any forester has made the failed one.
"""

import asyncio
import time
from collections.abc import Callable

from solders.pubkey import Pubkey

from forester.errors import ForesterError, failure_of
from forester.observability.work_records import BatchState
from forester.pipeline_v2.proof_ledger import ProofLedger, ProofState, WindowId, link_of_batch, stored_proof
from forester.pipeline_v2.proof_times import ProofTimes
from forester.pipeline_v2.services import V2Services
from forester.pipeline_v2.staging.staged_batches import StagedBatch
from forester.prover_client.client import PROOF_OBSOLETE, FinishedProof
from forester.waiting import occurs_within
from shared.process.logs import get_logger

_log = get_logger(__name__)

_ATTEMPTS = 2
"""Maximum tries for a batch with retryable failures, before the round decides."""


class ProofRequests:
    """The requests of one tree, at most ``window`` under way; permits bound those of all trees together."""

    def __init__(
        self,
        tree: Pubkey,
        ledger: ProofLedger,
        services: V2Services,
        *,
        window: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tree = bytes(tree)
        self._name = str(tree)
        self._ledger = ledger
        self._services = services
        self._window = asyncio.Semaphore(window)
        self._clock = clock
        self._times = ProofTimes(clock)
        self._tasks: dict[asyncio.Task[None], StagedBatch] = {}
        self._failure: ForesterError | None = None
        self._changed = asyncio.Event()

    @property
    def usual_seconds(self) -> float:
        """Usual seconds from request to result of a proof requested now."""
        return self._times.usual(self._ledger.under_way)

    def take_failure(self) -> ForesterError | None:
        """Return the failure of the last proof that failed, once."""
        failure, self._failure = self._failure, None
        return failure

    @property
    def has_room(self) -> bool:
        """Return whether another proof can be requested without waiting."""
        return not self._window.locked()

    async def request(self, batch: StagedBatch, window: WindowId | None) -> None:
        """Request the proof of a batch; waits while too many are under way."""
        await self._window.acquire()
        before = self._ledger.under_way
        self._ledger.requested(stored_proof(self._tree, batch, b""), window)
        self._services.metrics.work.staged(self._name, batch.kind.value, batch.sequence, batch.elements)
        task = asyncio.create_task(self._run(batch, before), name=f"proof {batch.kind} {batch.sequence}")
        self._tasks[task] = batch
        task.add_done_callback(self._ended)

    async def changed(self, within_s: float) -> None:
        """Wait until a proof is finished or has failed, ``within_s`` seconds at most."""
        await occurs_within(self._changed, within_s)
        self._changed.clear()

    def cancel_before(self, sequence: int) -> None:
        """Cancel the requests of proofs that only fit before a sequence number: useful ones wait for their permits."""
        obsolete = [task for task in self._proving() if self._tasks[task].sequence < sequence and not task.cancelling()]
        for task in obsolete:
            task.cancel(PROOF_OBSOLETE)
        if obsolete:
            _log.info("v2_proofs_cancelled", tree=self._name, sequence=sequence, proofs=len(obsolete))

    async def close(self, within_s: float) -> None:
        """Let requests finish for ``within_s`` seconds, then cancel the rest; finished proofs are still stored."""
        if not self._tasks:
            return
        await asyncio.wait(self._tasks, timeout=within_s)
        proving = self._proving()
        for task in proving:
            task.cancel()
        _log.info("v2_proofs_drained", tree=self._name, unfinished=len(proving))
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _proving(self) -> list[asyncio.Task[None]]:
        return [
            task
            for task, batch in self._tasks.items()
            if self._ledger.state_of(link_of_batch(batch)) is ProofState.REQUESTED
        ]

    def _ended(self, task: asyncio.Task[None]) -> None:
        batch = self._tasks.pop(task)
        link = link_of_batch(batch)
        state = self._ledger.state_of(link)
        raised = None if task.cancelled() else task.exception()
        facts = {"circuit": batch.kind.value, "sequence": batch.sequence}
        failure = failure_of(raised, **facts) if isinstance(raised, Exception) else None
        if state is not None and state.is_under_way:
            if task.cancelled():
                self._ledger.cancelled(link)
                self._record(batch, BatchState.CANCELLED)
            else:
                self._ledger.failed(link)
                self._record(batch, BatchState.FAILED, None if failure is None else failure.detail)
        if failure is not None:
            self._failure = failure
        self._window.release()
        self._changed.set()

    def _record(self, batch: StagedBatch, state: BatchState, detail: str | None = None) -> None:
        self._services.metrics.work.moved(
            *(self._name, batch.kind.value, batch.sequence, state), elements=batch.elements, detail=detail
        )

    async def _run(self, batch: StagedBatch, before: int) -> None:
        requested_at = self._clock()
        finished = await self._proved(batch)
        self._times.add(before, self._clock() - requested_at - finished.outage_s)
        proof = stored_proof(self._tree, batch, finished.proof.data)
        self._ledger.proved(proof)
        self._record(batch, BatchState.PROVED)
        try:
            await self._services.proofs.add([proof])
        except ForesterError as error:
            # This process can still send it.
            _log.warning("proof_not_stored", circuit=batch.kind.value, sequence=batch.sequence, error=error.detail)
        self._ledger.stored(proof)

    async def _proved(self, batch: StagedBatch) -> FinishedProof:
        circuit, attempt = batch.kind.value, 0
        while True:
            attempt += 1
            try:
                async with self._services.permits[batch.kind]:
                    began = time.monotonic()
                    self._record(batch, BatchState.PROVING)
                    finished = await self._services.prover.prove(
                        batch.request, tree_id=self._name, batch_index=batch.sequence
                    )
            except ForesterError as error:
                _log.warning(
                    "proof_failed",
                    circuit=circuit,
                    sequence=batch.sequence,
                    attempt=attempt,
                    retryable=error.retryable,
                    error=error.detail,
                )
                if not error.retryable or attempt >= _ATTEMPTS:
                    raise
                continue
            self._services.metrics.proofs_made.labels(circuit).inc()
            _log.info(
                "v2_proved",
                tree=self._name,
                circuit=circuit,
                sequence=batch.sequence,
                seconds=round(time.monotonic() - began, 3),
                prover_ms=finished.duration_ms,
            )
            return finished
