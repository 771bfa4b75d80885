"""Tree processor of V2: sends stored proofs first, then stages, proves and sends ready batches in order.

No proof is lost: one under way continues when a window ends or a call is cancelled, and is sent in this window, the
next one, another epoch or by another process, as long as it continues from the chain's root. Source:
forester/docs/reference/behaviour.md, "V2 rounds" and "Proof lifetime".
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from forester.chain.tree_metadata import TreeMetadata
from forester.epoch.phases import CONFIRMATION_SLOTS
from forester.errors import ForesterError
from forester.journal.proofs import StoredProof
from forester.pipeline_v2.batch_sender import BatchSender, SentGroup, Verdict
from forester.pipeline_v2.failures import HeadOutdated
from forester.pipeline_v2.head_reader import HeadReader
from forester.pipeline_v2.proof_scheduler import Link, ProofScheduler, link_of, link_of_batch
from forester.pipeline_v2.retry_pauses import Pause, Refusals
from forester.pipeline_v2.services import V2Limits, V2Services
from forester.pipeline_v2.stager import Stager
from forester.pipeline_v2.tree_head import TreeHead
from forester.scheduling.eligibility_window import EligibilityWindow, ProcessingResult
from forester.scheduling.proof_assignment import ProofAssignment, needed_slots
from forester.units import SLOT_SECONDS
from shared.circuit_id import CircuitKind
from shared.logs import get_logger

_log = get_logger(__name__)

LAST_SLOTS = 12
LEAST_LAST_SLOTS = CONFIRMATION_SLOTS + 2
"""With this many slots left, or half of a short window, a transaction is sent although it has room for more proofs."""
OVERLAP_SLOTS = 300
"""With two minutes left the next round is proved while this one is sent; later another forester may be eligible."""
AHEAD_ROUNDS = 4
"""Rounds that are proved and stored before a window in which they can be sent; one when it is near."""
_STAGING_S = 2 * SLOT_SECONDS
"""Minimum seconds of reading and staging before a proof begins; the known slot may be as old."""
_LOOK_S = 1.0
_FAR_LOOK_S = 10.0
_SOON_SLOTS = 25
"""A window or a term that begins within 10 s is waited for."""
_EARLIER_S = 10.0
_NODE_S = 5.0


@dataclass
class _RoundState:
    """State of a round: the tree as far as we have moved it, and the results."""

    root: bytes
    sequence: int
    provable: int
    began: float
    batches: int = 0
    elements: int = 0
    transactions: int = 0
    staged: bool = False
    failure: ForesterError | None = None


class V2Processor:
    """The TreeProcessor of a V2 tree; ValueError for trees of V1.

    ``work`` and ``prepare`` may be cancelled at any point; they raise nothing but bugs. ``close`` must be awaited
    before the journal is closed.
    """

    def __init__(
        self,
        tree: TreeMetadata,
        services: V2Services,
        limits: V2Limits | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tree = tree
        self._name = str(tree.address)
        self._limits = limits or V2Limits()
        self._clock = clock
        self._metrics = services.metrics
        self._heads = HeadReader(services.rpc, tree)
        self._stager = Stager(tree, self._heads, services.indexer, services.metrics)
        self._line = ProofScheduler(
            *(bytes(tree.address), self._name, services.proofs, services.prover, services.permits),
            window=self._limits.window,
            made=lambda circuit: services.metrics.proofs_made.labels(circuit).inc(),
            clock=clock,
        )
        self._batches = BatchSender(tree, services.sender, services.derivation, self._limits.cu_limit)
        self._pause = Pause(clock)
        self._refusals = Refusals(self._limits.done_kept_s, clock)
        self._landed: tuple[int, float] | None = None
        self._handover = ProofAssignment(bytes(tree.address), bytes(services.derivation))
        self._staging_s = 0.0
        self._turn: tuple[int, int] | None = None
        self._asked: set[Link] = set()

    async def work(self, eligibility: EligibilityWindow) -> ProcessingResult:
        """Send existing proofs, then prove and send one round of ready batches.

        Elements are counted in the metrics as they land: the caller counts none, and logs failures. After failures,
        staging and proving pauses, for growing times; stored proofs are sent meanwhile.
        """
        try:
            tally = await self._new_round(eligibility)
        except ForesterError as error:
            return ProcessingResult(more=True, failure=error)
        if self._turn != (eligibility.epoch, eligibility.window.first):
            self._turn, self._asked = (eligibility.epoch, eligibility.window.first), set()
        try:
            await self._round(eligibility, tally)
            self._note_proofs(tally)
        except ForesterError as error:
            tally.failure = error
        provable = tally.provable > 0 and self._may_begin(eligibility)
        more = provable or bool(self._line.ahead(tally.root, tally.sequence))
        return ProcessingResult(tally.elements, tally.transactions, more, tally.failure)

    async def prepare(self, eligibility: EligibilityWindow) -> None:
        """Make and store proofs for a coming window while they are assigned to us; failures are only logged.

        Returns when there is nothing to prove, or enough is proved.
        """
        try:
            while (tally := await self._new_round(eligibility)).provable:
                if self._may_begin(eligibility):
                    if not await self._prove_ahead(eligibility, tally):
                        return
                else:
                    soon = self._may_begin(eligibility, after_slots=_SOON_SLOTS)
                    await asyncio.sleep(_LOOK_S if soon else _FAR_LOOK_S)
        except ForesterError as error:
            _log.warning("v2_preparation_failed", tree=self._name, epoch=eligibility.epoch, error=error.detail)

    def _need_slots(self, *, staged: bool = False) -> int:
        """Return the slots until a proof that begins now is finished."""
        return needed_slots(self._line.usual_seconds, 0.0 if staged else max(_STAGING_S, self._staging_s))

    def _may_begin(self, eligibility: EligibilityWindow, *, after_slots: int = 0, staged: bool = False) -> bool:
        """Return whether a proof is assigned to us: nobody else begins it, and it can be sent before another may."""
        slot, need = eligibility.slot() + after_slots, self._need_slots(staged=staged)
        return self._handover.may_begin(slot, need, eligibility.window, eligibility.schedule)

    async def _prove_ahead(self, eligibility: EligibilityWindow, tally: _RoundState) -> bool:
        """Prove another round; return whether there may be a next."""
        made = len(self._line.ahead(tally.root, tally.sequence))
        far = eligibility.slot() + _SOON_SLOTS < eligibility.window.first
        most = min(tally.provable, self._limits.round_batches * (AHEAD_ROUNDS if far else 1))
        if made < most and self._pause.is_over:
            await self._stage(tally, min(most, made + self._limits.round_batches), eligibility)
        while self._line.under_way:
            await self._line.changed(_LOOK_S)
        self._note_proofs(tally)
        if tally.failure is not None:
            raise tally.failure
        return made < len(self._line.ahead(tally.root, tally.sequence)) < most

    async def close(self, within_s: float) -> None:
        """Let proofs under way finish and be stored, for ``within_s`` seconds at most, then stop."""
        await self._line.close(within_s)

    async def _new_round(self, eligibility: EligibilityWindow) -> _RoundState:
        """Return a new round at the tree's state; proofs that the tree has passed are dropped."""
        await self._line.load()
        if not await self._batches.wait_for_earlier(_EARLIER_S):
            raise HeadOutdated("a transaction that was sent before the restart may still land")
        outline = await self._heads.outline()
        self._require_no_older(outline.sequence)
        tally = _RoundState(outline.root, outline.sequence, outline.provable, self._clock())
        group = self._batches.unknown
        if group and outline.sequence > group[0].sequence:
            self._batches.settle_unknown()
            if (outline.root, outline.sequence) == (group[-1].new_root, group[-1].sequence + 1):
                self._count(tally, group, eligibility.epoch)
        await self._line.forget_before(outline.sequence)
        landed = self._landed[0] if self._landed is not None else 0
        self._handover.observe(
            *(eligibility.slot(), outline.sequence, outline.provable),
            landed=landed,
            need_slots=self._need_slots(),
            schedule=eligibility.schedule,
        )
        return tally

    def _require_no_older(self, sequence: int) -> None:
        """Refuse a tree older than our confirmed work; after some time the chain is accepted: it may have gone back."""
        if self._landed is None or sequence >= self._landed[0]:
            return
        if self._clock() - self._landed[1] < self._limits.done_kept_s:
            raise HeadOutdated(f"the node returns {self._name} at {sequence}, but {self._landed[0]} was confirmed")
        self._landed = None

    async def _round(self, eligibility: EligibilityWindow, tally: _RoundState) -> None:
        gathering: float | None = None
        while (seconds := _sending_seconds(eligibility)) is not None:
            self._note_proofs(tally)
            ahead = self._line.ahead(tally.root, tally.sequence)
            ready = self._line.ready(tally.root, tally.sequence)
            if ready:
                gathering = gathering if gathering is not None else self._clock()
                group, full = self._batches.group(ready, eligibility.epoch)
                waited = self._clock() - gathering >= self._limits.gather_s
                if full or waited or len(ahead) == len(ready) or _nears_end(eligibility):
                    gathering = None
                    if not await self._send_group(eligibility.epoch, tally, group, seconds):
                        return
                    continue
            wanted = self._wanted_batches(eligibility, tally)
            if not tally.staged and len(ahead) < min(wanted, tally.provable):
                await self._stage(tally, wanted, eligibility)
            elif (ahead and tally.batches < self._limits.round_batches) or self._begins_soon(eligibility, tally):
                await self._line.changed(min(seconds, _LOOK_S))
            else:
                return

    def _wanted_batches(self, eligibility: EligibilityWindow, tally: _RoundState) -> int:
        """Return the number of batches to be proved or under way: the rest of the round, and the next one."""
        room = self._limits.round_batches - tally.batches
        if room <= 0 or not self._may_begin(eligibility):
            return 0
        return room + (self._limits.round_batches if eligibility.remaining_slots() >= OVERLAP_SLOTS else 0)

    def _begins_soon(self, eligibility: EligibilityWindow, tally: _RoundState) -> bool:
        """Return whether waiting batches are assigned to us within a few seconds."""
        waits = tally.provable > 0 and not (tally.staged or tally.batches or self._may_begin(eligibility))
        return waits and self._may_begin(eligibility, after_slots=_SOON_SLOTS)

    async def _send_group(
        self, epoch: int, tally: _RoundState, group: tuple[StoredProof, ...], within_s: float
    ) -> bool:
        """Send proofs that fit the state of the round; return whether the round continues."""
        began = self._clock()
        sent = await self._batches.send(group, epoch, within_s)
        _log.info(
            "v2_sent",
            tree=self._name,
            epoch=epoch,
            sequence=group[0].sequence,
            batches=len(group),
            verdict=sent.verdict.value,
            seconds=round(self._clock() - began, 3),
        )
        if sent.verdict is Verdict.LANDED:
            self._count(tally, group, epoch)
            tally.root, tally.sequence = group[-1].new_root, group[-1].sequence + 1
            tally.provable = max(0, tally.provable - len(group))
            return True
        tally.failure = sent.failure
        if sent.verdict is Verdict.UNFITTING:
            await self._check_refused(tally, sent)
        return False

    def _count(self, tally: _RoundState, group: Sequence[StoredProof], epoch: int) -> None:
        elements = sum(proof.elements for proof in group)
        tally.batches += len(group)
        tally.elements += elements
        tally.transactions += 1
        self._landed = (group[-1].sequence + 1, self._clock())
        if tally.failure is None:
            self._pause.succeeded()
        for proof in group:
            if link_of(proof) not in self._asked:
                self._metrics.proofs_reused.labels(proof.circuit).inc()
            self._asked.discard(link_of(proof))
        self._metrics.count_processed(epoch, elements, self._clock() - tally.began)

    async def _check_refused(self, tally: _RoundState, sent: SentGroup) -> None:
        """Distinguish a useless proof from a tree that another forester has moved."""
        if sent.slot is not None:
            await self._heads.wait_for_slot(sent.slot, _NODE_S)
        outline = await self._heads.outline()
        tally.provable = outline.provable
        if (outline.root, outline.sequence) != (tally.root, tally.sequence):
            _log.info("v2_tree_advanced", tree=self._name, sequence=outline.sequence, ours=tally.sequence)
            tally.root, tally.sequence, tally.failure = outline.root, outline.sequence, None
        elif sent.culprit is not None:
            await self._line.forget(sent.culprit)
            self._refusals.add(link_of(sent.culprit))

    async def _stage(self, tally: _RoundState, max_batches: int, eligibility: EligibilityWindow) -> None:
        """Request the proofs of ready batches, except existing ones; a failure ends the staging, not the round."""
        tally.staged = True
        if not self._pause.is_over:
            tally.failure = self._pause.failure
            return
        began = self._clock()
        try:
            staged = await self._stager.stage(max_batches, self._kinds_ahead)
            self._staging_s = self._clock() - began
            self._require_no_older(staged.head.sequence)
            tally.root, tally.sequence = staged.head.root, staged.head.sequence
            tally.provable = self._stager.provable(staged.head)
            while staged.staging is not None and self._may_begin(eligibility, staged=True):
                batch = await asyncio.to_thread(staged.staging.next)
                if batch is None:
                    return
                if not self._line.has(batch):
                    self._refusals.check(link_of_batch(batch))
                    await self._line.request(batch)
                    self._asked.add(link_of_batch(batch))
        except ForesterError as error:
            self._pause.failed(error)
            tally.failure = error

    def _kinds_ahead(self, head: TreeHead) -> list[CircuitKind]:
        return [CircuitKind(proof.circuit) for proof in self._line.ahead(head.root, head.sequence)]

    def _note_proofs(self, tally: _RoundState) -> None:
        if (failure := self._line.take_failure()) is not None:
            self._pause.failed(failure)
            tally.failure = failure


def _nears_end(eligibility: EligibilityWindow) -> bool:
    """Return whether there may be no time for another transaction."""
    return eligibility.remaining_slots() <= min(LAST_SLOTS, max(LEAST_LAST_SLOTS, eligibility.window.length // 2))


def _sending_seconds(eligibility: EligibilityWindow) -> float | None:
    """Return the time in which a transaction may be confirmed; None before the window and at its end."""
    return eligibility.sending_seconds() if eligibility.slot() >= eligibility.window.first else None
