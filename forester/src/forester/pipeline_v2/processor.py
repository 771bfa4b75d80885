"""Tree processor of V2: sends stored proofs first, then stages, proves and sends ready batches in order.

The ledger has the state of each proof, ``round_decisions`` decides what is next, and this file performs it. No proof
is lost: one under way continues when a window ends or a call is cancelled, and is sent in this window, the next one,
another epoch or by another process, as long as it continues from the chain's root. Source:
forester/docs/reference/behaviour.md, "V2 rounds" and "Proof lifetime".
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from forester.chain.tree_metadata import TreeMetadata
from forester.errors import EndpointError, ForesterError, failure_of
from forester.journal.proofs import StoredProof
from forester.observability.work_records import BatchState
from forester.pipeline_v2.batch_sender import BatchSender, unfitting
from forester.pipeline_v2.failures import HeadOutdated, StagingRefused, TransactionLost
from forester.pipeline_v2.proof_ledger import ProofLedger, TrackedProof, WindowId, link_of_batch
from forester.pipeline_v2.proof_requests import ProofRequests
from forester.pipeline_v2.round_decisions import SOON_SLOTS, RoundAction, RoundState, Step, next_action
from forester.pipeline_v2.services import V2Limits, V2Services
from forester.pipeline_v2.staging.head_reader import HeadReader
from forester.pipeline_v2.staging.staged_batches import Staging
from forester.pipeline_v2.staging.stager import Stager
from forester.pipeline_v2.staging.tree_head import TreeHead
from forester.scheduling.eligibility_window import EligibilityWindow, ProcessingResult
from forester.scheduling.proof_assignment import ProofAssignment, needed_slots
from forester.transactions.builder import TransactionTooLarge
from forester.transactions.confirm import Fate
from forester.transactions.spending import BudgetExceeded
from forester.units import SLOT_SECONDS
from forester.waiting import RetryPause
from shared.process.logs import get_logger
from shared.process.retries import Backoff, jittered
from shared.requests.circuit_id import CircuitKind

_log = get_logger(__name__)

_STAGING_S = 2 * SLOT_SECONDS
"""Minimum seconds of reading and staging before a proof begins; the known slot may be as old."""
_PAUSES = Backoff(0.4, 30.0)
_EARLIER_S = 10.0
_NODE_S = 5.0


@dataclass
class _Round:
    """A round: the tree as far as we have moved it, and the results. ``sends`` is false for a preparation.

    ``staging`` has the batches that are staged, but not requested yet.
    """

    eligibility: EligibilityWindow
    sends: bool
    root: bytes
    sequence: int
    provable: int
    began: float
    chain_before: int = 0
    landed: int = 0
    elements: int = 0
    transactions: int = 0
    staged: bool = False
    staging: Staging | None = None
    stopped: bool = False
    gathering_since: float | None = None
    failure: ForesterError | None = None

    @property
    def window(self) -> WindowId:
        """The window that the round is in."""
        return self.eligibility.epoch, self.eligibility.window.first


class V2Processor:
    """The TreeProcessor of a V2 tree; ValueError for trees of V1.

    ``work`` and ``prepare`` may be cancelled at any point; they raise nothing else, and log bugs. ``close`` must be
    awaited before the journal is closed.
    """

    def __init__(
        self,
        tree: TreeMetadata,
        services: V2Services,
        limits: V2Limits | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._key = bytes(tree.address)
        self._name = str(tree.address)
        self._limits = limits or V2Limits()
        self._clock = clock
        self._metrics = services.metrics
        self._store = services.proofs
        self._heads = HeadReader(services.rpc, tree)
        self._indexer = services.indexer
        self._stager = Stager(tree, self._heads, services.indexer, services.metrics)
        self._ledger = ProofLedger(self._name, self._limits.done_kept_s, clock)
        self._restored = False
        self._requests = ProofRequests(tree.address, self._ledger, services, window=self._limits.window, clock=clock)
        self._batches = BatchSender(tree, services.sender, services.derivation, self._limits.cu_limit)
        self._pause = RetryPause(partial(jittered, _PAUSES), clock)
        self._paused_after: ForesterError | None = None
        self._assignment = ProofAssignment(self._key, bytes(services.derivation))
        self._staging_s = 0.0

    async def work(self, eligibility: EligibilityWindow) -> ProcessingResult:
        """Send existing proofs, then prove and send one round of ready batches.

        Elements are counted in the metrics as they land: the caller counts none, and logs failures. After failures,
        staging and proving pauses, for growing times; stored proofs are sent meanwhile.
        """
        try:
            current = await self._begin(eligibility, sends=True)
        except Exception as error:  # noqa: BLE001 - a crash would cancel the proofs under way
            return ProcessingResult(more=True, failure=failure_of(error))
        try:
            await self._run(current)
        except Exception as error:  # noqa: BLE001 - as above
            current.failure = failure_of(error)
        provable = current.provable > 0 and self._may_begin(eligibility)
        return ProcessingResult(
            elements=current.elements,
            transactions=current.transactions,
            more=provable or bool(self._ledger.chain(current.root, current.sequence)),
            failure=current.failure,
        )

    async def prepare(self, eligibility: EligibilityWindow) -> None:
        """Make and store proofs for a coming window while they are assigned to us; failures are only logged.

        Returns when there is nothing to prove, or enough is proved.
        """
        failure: ForesterError | None
        try:
            while True:
                current = await self._begin(eligibility, sends=False)
                last = await self._run(current)
                failure = current.failure
                if last.action is RoundAction.END:
                    break
                await asyncio.sleep(last.seconds)
        except Exception as error:  # noqa: BLE001 - a crash would cancel the proofs under way
            failure = failure_of(error)
        if failure is not None:
            _log.warning("v2_preparation_failed", tree=self._name, epoch=eligibility.epoch, error=failure.detail)

    async def close(self, within_s: float) -> None:
        """Let proofs under way finish and be stored, for ``within_s`` seconds at most, then stop."""
        await self._requests.close(within_s)

    async def _begin(self, eligibility: EligibilityWindow, *, sends: bool) -> _Round:
        """Return a new round at the tree's state; proofs that the tree has passed are dropped."""
        if not self._restored:
            self._ledger.restore(await self._store.of_tree(self._key))
            self._restored = True
        if not await self._batches.wait_for_earlier(_EARLIER_S):
            raise HeadOutdated("a transaction that was sent before the restart may still land")
        head = await self._heads.outline()
        self._ledger.require_no_older(head.sequence)
        current = _Round(eligibility, sends, head.root, head.sequence, head.provable, self._clock())
        if landed := self._ledger.settle(head.root, head.sequence):
            self._count(current, landed)
        if self._ledger.forget_before(head.sequence):
            await self._store.forget_before(self._key, head.sequence)
        self._requests.cancel_before(head.sequence)
        current.chain_before = len(self._ledger.chain(head.root, head.sequence))
        self._assignment.observe(
            *(eligibility.slot(), head.sequence, head.provable),
            landed=self._ledger.landed_sequence,
            need_slots=self._need_slots(),
            schedule=eligibility.schedule,
        )
        return current

    async def _run(self, current: _Round) -> Step:
        """Perform the steps of a round; return the last one."""
        while True:
            if (failure := self._requests.take_failure()) is not None:
                self._fail(current, failure)
            await self._request_staged(current)
            step = next_action(self._state(current))
            match step.action:
                case RoundAction.SEND:
                    await self._send(current, step)
                case RoundAction.STAGE:
                    await self._stage(current, step.batches)
                case RoundAction.WAIT:
                    await self._requests.changed(step.seconds)
                case RoundAction.END:
                    if step.seconds:
                        await self._requests.changed(step.seconds)
                    return step
                case RoundAction.READ:
                    return step

    def _state(self, current: _Round) -> RoundState:
        eligibility, now = current.eligibility, self._clock()
        chain = self._ledger.chain(current.root, current.sequence)
        state = RoundState(
            window=eligibility.window,
            slot=eligibility.slot(),
            sends=current.sends,
            limit=self._limits.round_batches,
            provable=current.provable,
            may_begin=self._may_begin(eligibility),
            begins_soon=self._may_begin(eligibility, after_slots=SOON_SLOTS),
            chain=tuple(tracked.state for tracked in chain),
            under_way=self._ledger.under_way,
            landed=current.landed,
            staged=current.staged,
            chain_before=current.chain_before,
            has_room=self._requests.has_room,
            paused=not self._pause.is_over,
            stopped=current.stopped,
            failed=current.failure is not None,
        )
        if not current.sends or not state.ready:
            return state
        if current.gathering_since is None:
            current.gathering_since = now
        return replace(
            state,
            fitting=self._batches.fitting([tracked.proof for tracked in chain[: state.ready]], eligibility.epoch),
            gathered=now - current.gathering_since >= self._limits.gather_s,
        )

    def _need_slots(self, *, staged: bool = False) -> int:
        """Return the slots until a proof that begins now is finished."""
        return needed_slots(self._requests.usual_seconds, 0.0 if staged else max(_STAGING_S, self._staging_s))

    def _may_begin(self, eligibility: EligibilityWindow, *, after_slots: int = 0, staged: bool = False) -> bool:
        """Return whether a proof is assigned to us: nobody else begins it, and it can be sent before another may."""
        slot, need = eligibility.slot() + after_slots, self._need_slots(staged=staged)
        return self._assignment.may_begin(slot, need, eligibility.window, eligibility.schedule)

    async def _send(self, current: _Round, step: Step) -> None:
        """Send the first proofs that fit the tree; the round stops unless they land."""
        began, current.gathering_since = self._clock(), None
        chain = self._ledger.chain(current.root, current.sequence)
        group = tuple(tracked.proof for tracked in chain[: step.batches])
        self._ledger.sent(group)
        self._record(group, BatchState.SENT)
        try:
            outcome = await self._batches.send(group, current.eligibility.epoch, step.seconds)
        except (TransactionTooLarge, BudgetExceeded, EndpointError) as error:
            # Nothing was signed, and the lookup table may be gone: the next round sends as many as fit.
            self._not_landed(group, error.detail)
            raise
        _log.info(
            "v2_sent",
            tree=self._name,
            epoch=current.eligibility.epoch,
            sequence=group[0].sequence,
            batches=len(group),
            fate=outcome.fate.value,
            seconds=round(self._clock() - began, 3),
        )
        if outcome.fate is Fate.CONFIRMED:
            self._count(current, self._ledger.landed(group), outcome.slot)
            current.root, current.sequence = group[-1].new_root, group[-1].sequence + 1
            current.provable = max(0, current.provable - len(group))
            return
        current.stopped, current.staging = True, None
        if outcome.fate is Fate.DEADLINE_PASSED and outcome.signed:
            current.failure = outcome.error or current.failure  # there may be no funds, and it may still land
            return
        self._not_landed(group, outcome.fate.value)
        current.failure = TransactionLost() if outcome.fate is Fate.EXPIRED else outcome.error or current.failure
        if (proof := unfitting(group, outcome)) is not None:
            await self._check_refused(current, proof, outcome.slot)

    def _not_landed(self, group: Sequence[StoredProof], reason: str) -> None:
        self._ledger.unsent(group)
        self._record(group, BatchState.PROVED, detail=f"not landed: {reason}")

    def _count(self, current: _Round, group: Sequence[TrackedProof], slot: int | None = None) -> None:
        self._record([tracked.proof for tracked in group], BatchState.CONFIRMED, slot=slot)
        elements = sum(tracked.proof.elements for tracked in group)
        current.landed += len(group)
        current.elements += elements
        current.transactions += 1
        if current.failure is None:
            self._pause.succeeded()
        for tracked in group:
            if tracked.window != current.window:
                self._metrics.proofs_reused.labels(tracked.proof.circuit).inc()
        self._metrics.count_processed(current.eligibility.epoch, elements, self._clock() - current.began)

    def _record(
        self, group: Sequence[StoredProof], state: BatchState, *, slot: int | None = None, detail: str | None = None
    ) -> None:
        for proof in group:
            self._metrics.work.moved(
                *(self._name, proof.circuit, proof.sequence, state), elements=proof.elements, slot=slot, detail=detail
            )

    async def _check_refused(self, current: _Round, proof: StoredProof, slot: int | None) -> None:
        """Distinguish a useless proof from a tree that another forester has moved, in the slot of the refusal."""
        if slot is not None:
            await self._heads.wait_for_slot(slot, _NODE_S)
        head = await self._heads.outline()
        current.provable = head.provable
        if (head.root, head.sequence) != (current.root, current.sequence):
            _log.info("v2_tree_advanced", tree=self._name, sequence=head.sequence, ours=current.sequence)
            current.root, current.sequence, current.failure = head.root, head.sequence, None
        else:
            self._ledger.refused(proof)
            self._record([proof], BatchState.FAILED, detail="the chain refused the proof")
            await self._store.forget([proof])

    async def _stage(self, current: _Round, max_batches: int) -> None:
        """Stage ready batches; a failure ends the staging, not the round."""
        current.staged = True
        if not self._pause.is_over:
            current.failure = self._paused_after
            return
        began = self._clock()
        try:
            staged = await self._stager.stage(max_batches, self._kinds_ahead)
            self._staging_s = self._clock() - began
            self._ledger.require_no_older(staged.head.sequence)
            current.root, current.sequence = staged.head.root, staged.head.sequence
            current.provable, current.staging = staged.head.provable, staged.staging
        except Exception as error:  # noqa: BLE001 - proofs that exist are still sent
            self._fail(current, failure_of(error))

    async def _request_staged(self, current: _Round) -> None:
        """Request the proofs of staged batches, except existing ones, while there is room.

        The rest is requested as proofs end: a wait for room would delay the sending of finished ones.
        """
        window, eligibility = current.window if current.sends else None, current.eligibility
        try:
            while current.staging is not None and self._requests.has_room and self._may_begin(eligibility, staged=True):
                batch = await asyncio.to_thread(current.staging.next)
                if batch is None:
                    current.staging = None
                elif self._ledger.needs_proof(link_of_batch(batch)):
                    await self._requests.request(batch, window)
        except Exception as error:  # noqa: BLE001 - proofs that exist are still sent
            self._fail(current, failure_of(error))

    def _kinds_ahead(self, head: TreeHead) -> list[CircuitKind]:
        return [CircuitKind(circuit) for circuit in self._ledger.order(head.root, head.sequence)]

    def _fail(self, current: _Round, failure: ForesterError) -> None:
        self._pause.failed()
        self._paused_after = current.failure = failure
        if isinstance(failure, StagingRefused):
            self._indexer.contradicted()
        current.staging = None
