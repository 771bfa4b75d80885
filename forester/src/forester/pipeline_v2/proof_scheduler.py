"""Proofs of one tree, stored and under way, and the chain of them that continues from a root.

Proofs under way belong to the scheduler, not to the caller: they continue when a window ends or a round is cancelled,
and are in the journal as soon as they are finished.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable

from forester.errors import ForesterError
from forester.journal.proofs import ProofStore, StoredProof
from forester.pipeline_v2.proof_cache import select_proofs, stored_proof
from forester.pipeline_v2.proof_requests import ProofPermits, ProofRequests
from forester.pipeline_v2.proof_times import ProofTimes
from forester.pipeline_v2.staging import StagedBatch
from forester.prover_client.client import FinishedProof, ProverClient
from shared.logs import get_logger

_log = get_logger(__name__)
Link = tuple[int, str, bytes, bytes]
"""Statement of a proof: sequence number, circuit, old and new root."""


def link_of(proof: StoredProof) -> Link:
    """Return the statement of a proof."""
    return proof.sequence, proof.circuit, proof.old_root, proof.new_root


def link_of_batch(batch: StagedBatch) -> Link:
    """Return the statement of the proof of a batch."""
    return batch.sequence, batch.kind.value, batch.old_root, batch.new_root


class ProofScheduler:
    """Scheduler of the proofs of one tree.

    ``window`` bounds its proofs under way, ``permits`` those of all trees together. ``made`` is called with
    the circuit of each proof that the prover made.
    """

    def __init__(
        self,
        tree: bytes,
        name: str,
        store: ProofStore,
        prover: ProverClient,
        permits: ProofPermits,
        *,
        window: int,
        made: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tree = tree
        self._name = name
        self._store = store
        self._prover = prover
        self._made = made
        self._clock = clock
        self._requests = ProofRequests(self._prove, self._keep, permits=permits, window=window)
        self._kept: dict[Link, StoredProof] | None = None
        self._under_way: dict[Link, StoredProof] = {}
        self._requested_at: dict[Link, tuple[float, int]] = {}
        self._times = ProofTimes(clock)
        self._failure: ForesterError | None = None
        self._bug: Exception | None = None
        self._changed = asyncio.Event()
        self._collector: asyncio.Task[None] | None = None

    async def load(self) -> None:
        """Read the stored proofs of the journal, once; raises JournalError."""
        if self._kept is None:
            self._kept = {link_of(proof): proof for proof in await self._store.of_tree(self._tree)}

    async def forget_before(self, sequence: int) -> None:
        """Drop proofs that the chain has passed."""
        obsolete = [link for link in self._known if link[0] < sequence]
        if obsolete:
            await self._store.forget_before(self._tree, sequence)
            for link in obsolete:
                del self._known[link]

    async def forget(self, proof: StoredProof) -> None:
        """Drop a useless proof."""
        self._known.pop(link_of(proof), None)
        await self._store.forget([proof])

    def ahead(self, root: bytes, sequence: int) -> tuple[StoredProof, ...]:
        """Return the proofs that continue from a root; the ``proof`` of those under way is empty."""
        return select_proofs([*self._known.values(), *self._under_way.values()], root, sequence).chain

    def ready(self, root: bytes, sequence: int) -> tuple[StoredProof, ...]:
        """Return the proofs that can be sent now, one after another."""
        ahead = self.ahead(root, sequence)
        waiting = next((place for place, proof in enumerate(ahead) if not proof.proof), len(ahead))
        return ahead[:waiting]

    def has(self, batch: StagedBatch) -> bool:
        """Return whether the proof of a batch exists or is under way."""
        return link_of_batch(batch) in self._known or link_of_batch(batch) in self._under_way

    @property
    def under_way(self) -> int:
        """Number of requested proofs that are not finished."""
        return len(self._under_way)

    @property
    def usual_seconds(self) -> float:
        """Usual seconds from request to result of a proof requested now."""
        return self._times.usual(self.under_way)

    def take_failure(self) -> ForesterError | None:
        """Return the failure of the last proof that failed, once; raise an unexpected error."""
        bug, self._bug = self._bug, None
        if bug is not None:
            raise bug
        failure, self._failure = self._failure, None
        return failure

    async def request(self, batch: StagedBatch) -> None:
        """Request the proof of a batch; waits while too many are under way."""
        self._requested_at[link_of_batch(batch)] = self._clock(), self.under_way
        self._under_way[link_of_batch(batch)] = _placeholder(self._tree, batch)
        try:
            await self._requests.submit(batch)
        except BaseException:
            del self._under_way[link_of_batch(batch)], self._requested_at[link_of_batch(batch)]
            raise
        if self._collector is None or self._collector.done():
            self._collector = asyncio.create_task(self._collect(), name=f"proofs of {self._name}")

    async def changed(self, within_s: float) -> None:
        """Wait until a proof is finished or has failed, ``within_s`` seconds at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._changed.wait()
        self._changed.clear()

    async def close(self, within_s: float) -> None:
        """Let proofs under way finish for ``within_s`` seconds, then cancel the rest; finished proofs remain stored."""
        if self._under_way:
            unfinished = await self._requests.drain(within_s)
            _log.info("v2_proofs_drained", tree=self._name, unfinished=unfinished)
        if self._collector is not None:
            self._collector.cancel()
            await asyncio.wait([self._collector])
        await self._requests.abandon()
        self._under_way.clear()
        self._requested_at.clear()

    @property
    def _known(self) -> dict[Link, StoredProof]:
        if self._kept is None:
            raise RuntimeError("the journal was not read: call load first")
        return self._kept

    async def _collect(self) -> None:
        try:
            while self._requests.pending:
                result = await self._requests.take()
                link = link_of_batch(result.batch)
                self._under_way.pop(link, None)
                requested_at, before = self._requested_at.pop(link, (self._clock(), 0))
                if result.proof is not None:
                    self._times.add(before, self._clock() - requested_at - result.proof.outage_s)
                    self._known[link] = stored_proof(self._tree, result.batch, result.proof)
                else:
                    self._failure = result.failure
                self._changed.set()
        except Exception as bug:  # noqa: BLE001 - raised where it is noticed
            # No task would take the other proofs under way: they are not waited for.
            self._under_way.clear()
            self._requested_at.clear()
            self._bug = bug
        finally:
            self._changed.set()

    async def _prove(self, batch: StagedBatch) -> FinishedProof:
        began = time.monotonic()
        finished = await self._prover.prove(batch.request, tree_id=self._name, batch_index=batch.sequence)
        self._made(batch.kind.value)
        _log.info(
            "v2_proved",
            tree=self._name,
            circuit=batch.kind.value,
            sequence=batch.sequence,
            seconds=round(time.monotonic() - began, 3),
            prover_ms=finished.duration_ms,
        )
        return finished

    async def _keep(self, batch: StagedBatch, finished: FinishedProof) -> None:
        await self._store.add([stored_proof(self._tree, batch, finished)])


def _placeholder(tree: bytes, batch: StagedBatch) -> StoredProof:
    return StoredProof(tree, *link_of_batch(batch), start_index=batch.start_index, elements=batch.elements, proof=b"")
