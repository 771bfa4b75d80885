"""Tree processor of V1: moves elements from its queue into the tree, one transaction each, several at once.

The elements of a round are split into groups. Each group is proved by the indexer, compared with the chain, and sent,
concurrently with others. The program updates older proofs, so the order of the transactions does not matter.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Self, TypeVar

from solders.pubkey import Pubkey

from forester.chain.concurrent_accounts import QueueCell
from forester.chain.programs.registry import Forester
from forester.chain.rpc_client import RpcClient
from forester.chain.tree_metadata import TreeKind, TreeMetadata
from forester.epoch.phases import v1_batch_seconds
from forester.errors import EndpointTimedOut, ForesterError, InsufficientFunds, failure_of
from forester.pipeline_v1.failures import ProofsUnusable
from forester.pipeline_v1.indexer_proofs import Proof, ProofSource
from forester.pipeline_v1.pending_queue import PendingQueue
from forester.pipeline_v1.proof_freshness import ProofFit, TreeView, read_view
from forester.pipeline_v1.recent_work import RecentWork
from forester.pipeline_v1.work_items import CHANGES_PER_ADDRESS, RefusalResponse, WorkItem, response_to, work_item
from forester.scheduling.eligibility_window import EligibilityWindow, ProcessingResult
from forester.settings import Settings
from forester.transactions.confirm import Fate, Outcome
from forester.transactions.sender import Sender
from shared.process.logs import get_logger

_log = get_logger(__name__)
_T = TypeVar("_T")

MAXIMUM_STRIKES = 3
"""An element refused this often is skipped for as long as one that is done; one unknown to the indexer this often for
a few seconds, then longer: an indexer that lags will know it."""
_UNKNOWN_S = 2.0
_PREPARE_S = 30.0
_CHANGES_BY_OTHERS = 100


@dataclass(frozen=True)
class V1Options:
    """Settings of V1 work: elements per call of the indexer, calls and transactions of a tree at once, first cell.

    ``open_s`` and ``done_s`` are the seconds for which an element with an unknown outcome, or a success, is skipped.
    """

    group: int = 50
    groups_at_once: int = 10
    sends_at_once: int = 20
    cu_limit: int = 1_000_000
    first_cell: int = 0
    open_s: float = 180.0
    done_s: float = 180.0

    @classmethod
    def of(cls, settings: Settings, kind: TreeKind) -> Self:
        """Return the options that the settings give a kind of V1 tree."""
        is_state = kind is TreeKind.STATE_V1
        return cls(
            group=settings.indexer_batch_size,
            groups_at_once=settings.indexer_max_concurrent_batches,
            sends_at_once=settings.transaction_max_concurrent_batches,
            cu_limit=settings.cu_limit,
            first_cell=settings.state_queue_start_index if is_state else settings.address_queue_start_index,
            open_s=settings.tx_cache_ttl_seconds,
            done_s=settings.ops_cache_ttl_seconds,
        )

    @property
    def round(self) -> int:
        """Maximum elements of one round."""
        return self.group * self.groups_at_once


@dataclass
class _RoundResult:
    """Counts and failure of one round."""

    eligibility: EligibilityWindow
    ends: float
    changes: int = 0
    """Changes of the tree that may land while the round is under way."""
    confirmed: int = 0
    gone: int = 0
    refused: int = 0
    unusable: int = 0
    contradicted: int = 0
    """Proofs that are too old for the tree on the chain, or do not lead to a root of it."""
    late: int = 0
    failure: ForesterError | None = None
    stopped: bool = False
    calls: asyncio.Semaphore = field(default_factory=asyncio.Semaphore)
    sends: asyncio.Semaphore = field(default_factory=asyncio.Semaphore)

    def fail(self, error: ForesterError, *, stop: bool = False) -> None:
        """Record the first failure; one that stops the round replaces others."""
        if self.failure is None or (stop and not self.stopped):
            self.failure = error
        self.stopped = self.stopped or stop


class V1Processor:
    """The TreeProcessor of a V1 tree; keep one per tree, as it remembers sent elements.

    ``derivation`` is the key that the forester is registered under; the sender's payer signs. ``proofs`` is usually
    ``IndexerProofs(indexer, tree, metrics)``. A watcher of the queue's account calls ``queue_changed``, so that
    new elements are seen while older ones still wait.
    """

    def __init__(
        self,
        tree: TreeMetadata,
        *,
        rpc: RpcClient,
        proofs: ProofSource,
        sender: Sender,
        derivation: Pubkey,
        options: V1Options | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tree = tree
        self._rpc = rpc
        self._proofs = proofs
        self._sender = sender
        self._derivation = derivation
        self._options = options or V1Options()
        self._clock = clock
        self._recent = RecentWork(open_s=self._options.open_s, done_s=self._options.done_s, clock=clock)
        self._queue = PendingQueue(rpc, tree.queue, start=self._options.first_cell, apart_from=self._recent)
        self._strikes: dict[bytes, int] = {}
        self._unknown: dict[bytes, int] = {}
        self._open: dict[bytes, tuple[int, WorkItem]] = {}
        self._prepared: dict[bytes, Proof] = {}

    def queue_changed(self) -> None:
        """Read the queue again before the next round."""
        self._queue.changed()

    async def work(self, eligibility: EligibilityWindow) -> ProcessingResult:
        """Process one round of as many elements as are proved at once."""
        budget = v1_batch_seconds(eligibility.remaining_slots())
        if budget is None:
            return ProcessingResult(more=bool(self._queue.waiting()))
        tally = _RoundResult(
            eligibility,
            self._clock() + budget,
            calls=asyncio.Semaphore(self._options.groups_at_once),
            sends=asyncio.Semaphore(self._options.sends_at_once),
        )
        try:
            async with asyncio.timeout(budget):
                await self._queue.read_if_due(eligibility)
        except TimeoutError:
            return ProcessingResult(
                failure=EndpointTimedOut(f"the queue {self._tree.queue} was not read within {budget:g} s")
            )
        except Exception as error:  # noqa: BLE001 - after a crash, work of unknown outcome would be signed again
            return ProcessingResult(failure=failure_of(error))
        self._strikes = {value: count for value, count in self._strikes.items() if value in self._queue}
        self._unknown = {value: count for value, count in self._unknown.items() if value in self._queue}
        cells = sorted(self._queue.waiting(), key=lambda cell: cell.value not in self._prepared)[: self._options.round]
        of_each = CHANGES_PER_ADDRESS if self._tree.kind is TreeKind.ADDRESS_V1 else 1
        tally.changes = of_each * len(cells) + _CHANGES_BY_OTHERS
        groups = [cells[first : first + self._options.group] for first in range(0, len(cells), self._options.group)]
        async with asyncio.TaskGroup() as tasks:
            for item in self._still_open(eligibility.epoch):
                tasks.create_task(self._isolated(self._send, item, tally))
            for group in groups:
                tasks.create_task(self._isolated(self._group, group, tally))
        self._prepared.clear()
        return self._round(tally)

    async def prepare(self, eligibility: EligibilityWindow) -> None:
        """Get and keep proofs for a first round, which the program updates later."""
        del eligibility  # the queue is read again when the window begins: other foresters still work on it
        try:
            async with asyncio.timeout(_PREPARE_S):
                await self._queue.read_if_due(None)
                cells = self._queue.waiting()[: self._options.group]
                missing = [cell for cell in cells if cell.value not in self._prepared]
                proofs = await self._proofs.of(missing) if missing else []
        except TimeoutError:
            _log.info("v1_preparation_failed", tree=str(self._tree.address), error=f"not ready in {_PREPARE_S:g} s")
            return
        except Exception as error:  # noqa: BLE001 - after a crash, work of unknown outcome would be signed again
            _log.info("v1_preparation_failed", tree=str(self._tree.address), error=failure_of(error).detail)
            return
        known = {cell.value: self._prepared[cell.value] for cell in cells if cell.value in self._prepared}
        self._prepared = known | {proof.cell.value: proof for proof in proofs}

    async def close(self, within_s: float) -> None:
        """Stop; V1 proofs are cheap and not stored."""
        del within_s
        self._prepared.clear()

    def _still_open(self, epoch: int) -> list[WorkItem]:
        """Return the items that may still land, to be sent again unchanged until their outcome is known."""
        self._open = {
            value: (of, item) for value, (of, item) in self._open.items() if of == epoch and value in self._recent
        }
        return [item for _, item in self._open.values()]

    async def _isolated(self, do: Callable[[_T, _RoundResult], Awaitable[None]], part: _T, tally: _RoundResult) -> None:
        """Do a part of a round; its failure, even a bug, cancels no other part: transactions may be in flight."""
        try:
            await do(part, tally)
        except Exception as error:  # noqa: BLE001
            tally.fail(failure_of(error))

    async def _group(self, cells: Sequence[QueueCell], tally: _RoundResult) -> None:
        """Prove a group, compare it with the chain, send the elements that fit."""
        try:
            async with tally.calls, asyncio.timeout(max(0.0, tally.ends - self._clock())):
                if tally.stopped:
                    return
                proofs = await self._proved(cells)
                view = await read_view(self._rpc, self._tree.address, proofs)
        except TimeoutError:
            tally.late += len(cells)
            return
        items = self._items(view, proofs, tally)
        tally.unusable += len(cells) - len(items)
        known = {proof.cell.value for proof in proofs}
        for cell in cells:
            self._note_known(cell.value, cell.value in known)
        async with asyncio.TaskGroup() as tasks:
            for item in items:
                tasks.create_task(self._isolated(self._send, item, tally))

    async def _proved(self, cells: Sequence[QueueCell]) -> list[Proof]:
        known = [proof for cell in cells if (proof := self._prepared.pop(cell.value, None)) is not None]
        kept = [proof for proof in known if proof.cell in cells]
        missing = {cell.value for cell in cells} - {proof.cell.value for proof in kept}
        return kept + await self._proofs.of([cell for cell in cells if cell.value in missing]) if missing else kept

    def _items(self, view: TreeView, proofs: Sequence[Proof], tally: _RoundResult) -> list[WorkItem]:
        forester = Forester.registered(self._sender.payer, self._derivation, tally.eligibility.epoch)
        items, unfit = [], dict[str, int]()
        for proof in proofs:
            fit = view.fit(proof)
            if fit is ProofFit.FITS:
                changes = view.behind(proof) + tally.changes
                items.append(work_item(self._tree, forester, proof, view.changelog_index(proof), changes))
            else:
                unfit[fit.value] = unfit.get(fit.value, 0) + 1
                tally.contradicted += fit is not ProofFit.AHEAD
        if unfit:
            _log.warning("v1_proofs_rejected", tree=str(self._tree.address), **unfit)
        return items

    async def _send(self, item: WorkItem, tally: _RoundResult) -> None:
        value = item.proof.cell.value
        async with tally.sends:
            seconds = tally.eligibility.sending_seconds()
            if tally.stopped or seconds is None or self._clock() >= tally.ends:
                return
            maximum, repeated = self._options.cu_limit, value in self._open
            self._recent.sending(value)
            self._open[value] = tally.eligibility.epoch, item
            try:
                outcome = await self._sender.send(
                    [item.instruction],
                    purpose=item.purpose,
                    subject=value,
                    within_s=seconds,
                    # A limit that was too low must not refuse an element forever.
                    unit_limit=maximum if value in self._strikes else min(maximum, item.unit_limit),
                )
            except ForesterError as error:
                if not repeated:
                    self._release(value)  # nothing was sent, and others would not be either
                tally.fail(error, stop=True)
                return
        self._settle(value, outcome, tally)

    def _settle(self, value: bytes, outcome: Outcome, tally: _RoundResult) -> None:
        if outcome.fate is Fate.CONFIRMED:
            tally.confirmed += 1
            self._finish(value)
        elif outcome.fate is Fate.EXPIRED:
            self._release(value)
            self._queue.changed()  # an earlier process or another forester may have moved it meanwhile
        elif outcome.fate is Fate.REFUSED:
            self._refused(value, outcome, tally)
        elif isinstance(outcome.error, InsufficientFunds):
            tally.fail(outcome.error, stop=True)
        elif not outcome.signed:
            self._release(value)

    def _refused(self, value: bytes, outcome: Outcome, tally: _RoundResult) -> None:
        reaction = response_to(outcome.error)
        if reaction is RefusalResponse.GONE:
            tally.gone += 1
            self._finish(value)
            self._queue.changed()  # another forester works on it, so more known elements may be gone
            return
        self._release(value)
        if reaction is RefusalResponse.STOP and outcome.error is not None:
            tally.fail(outcome.error, stop=True)
            return
        tally.refused += 1
        self._strike(value)

    def _release(self, value: bytes) -> None:
        """Allow an element to be sent again: none of its transactions can land any more."""
        self._recent.release(value)
        self._open.pop(value, None)

    def _note_known(self, value: bytes, known: bool) -> None:
        """Record whether the indexer has a proof of an element."""
        if known:
            self._unknown.pop(value, None)
            return
        times = self._unknown[value] = self._unknown.get(value, 0) + 1
        if times >= MAXIMUM_STRIKES:
            pause_s = _UNKNOWN_S * 2 ** min(times - MAXIMUM_STRIKES, 16)
            self._recent.defer(value, pause_s)
            _log.warning("v1_element_unknown", tree=str(self._tree.address), element=value.hex(), again_in_s=pause_s)

    def _strike(self, value: bytes) -> None:
        """Count that an element was refused."""
        self._strikes[value] = self._strikes.get(value, 0) + 1
        if self._strikes[value] >= MAXIMUM_STRIKES:
            del self._strikes[value]
            self._recent.defer(value)
            _log.warning("v1_element_deferred", tree=str(self._tree.address), element=value.hex())

    def _finish(self, value: bytes) -> None:
        self._recent.done(value)
        self._open.pop(value, None)
        self._strikes.pop(value, None)
        self._queue.remove([value])

    def _round(self, tally: _RoundResult) -> ProcessingResult:
        failure = tally.failure
        if failure is None and not tally.confirmed + tally.gone + tally.refused:
            if tally.contradicted:
                self._proofs.contradicted()
            if tally.unusable:
                failure = ProofsUnusable(f"no proof of the indexer fits the tree {self._tree.address}; it may lag")
            elif tally.late:
                failure = EndpointTimedOut(f"no proofs for the tree {self._tree.address} before its window ended")
        done = tally.confirmed
        more = bool(self._queue.waiting() or self._open)
        return ProcessingResult(elements=done, transactions=done, more=more, failure=failure)
