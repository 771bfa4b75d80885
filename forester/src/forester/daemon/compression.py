"""Compressible accounts in the daemon: trackers, dispatch in the eligibility windows of the zero key, and counts."""

import asyncio
from collections.abc import Sequence
from functools import partial

from forester.chain import subscriptions
from forester.chain.programs.addresses import REGISTRY
from forester.compressible.claiming import RentClaims
from forester.compressible.closers import AccountCloser, MintCloser, ProgramAccountCloser, TokenAccountCloser
from forester.compressible.closing import ClosingRounds, OutputTrees
from forester.compressible.sources import AccountSource, sources
from forester.compressible.tracker import AccountTracker, ChangeListener
from forester.compressible.view import REFRESH_EVERY_S, CompressibleView
from forester.daemon.clock import SlotClock
from forester.daemon.funds import Funds
from forester.daemon.live_epochs import LiveEpoch, LiveShares
from forester.daemon.services import Services
from forester.daemon.supervisor import RESTARTS, Supervisor
from forester.daemon.watches.chain_events import while_offered
from forester.errors import InsufficientFunds, TransactionRefused
from forester.journal.compressible import CompressibleStore
from forester.scheduling.eligibility_window import EligibilityWindow, ProcessingResult
from forester.scheduling.tree_schedule import COMPRESSION_KEY, TreeSchedule
from forester.settings import given
from forester.waiting import first_of
from shared.process.logs import get_logger
from shared.process.retries import jittered

_log = get_logger(__name__)


class CompressionDispatcher:
    """Closes accounts and claims rent in our windows of the zero key while we are registered and have funds.

    Closing pays, and what is due for long may cost its owner more: so claims follow once nothing is left to close.
    """

    def __init__(
        self,
        rounds: ClosingRounds,
        claims: RentClaims,
        *,
        clock: SlotClock,
        shares: LiveShares,
        funds: Funds,
        stopping: asyncio.Event,
        poll_s: float,
    ) -> None:
        self._rounds = rounds
        self._claims = claims
        self._clock = clock
        self._shares = shares
        self._funds = funds
        self._stopping = stopping
        self._poll_s = poll_s
        self._made: tuple[LiveEpoch, TreeSchedule] | None = None
        self._failures = 0

    async def run(self) -> None:
        """Work until the process must end; a round under way may finish."""
        while not self._stopping.is_set():
            pause_s = await self._once()
            await first_of(self._stopping.wait(), timeout_s=min(pause_s, self._poll_s))

    async def _once(self) -> float:
        """Work on one round if a window is open; return the seconds until the next look."""
        slot = self._clock.slot()
        live = self._shares.at(slot) if self._funds.available else None
        if live is None:
            return self._poll_s
        window = (await self._schedule(live)).next_window(slot)
        if window is None:
            return self._poll_s
        if slot < window.first:
            await first_of(self._clock.reach(window.first), self._stopping.wait(), timeout_s=self._poll_s)
            return 0.0
        eligibility = EligibilityWindow(live.phases.epoch, window, lambda: self._slot_of(window.last))
        done = await self._rounds.work(eligibility)
        if done.failure is None and not done.more:
            claimed = await self._claims.work(eligibility)
            done = ProcessingResult(done.elements + claimed.elements, more=claimed.more, failure=claimed.failure)
        if done.failure is None:
            self._failures = 0
            return 0.0 if done.elements and done.more else self._poll_s
        self._failures += 1
        pause_s = jittered(RESTARTS, self._failures)
        _log.warning("round_failed", kind="Compressible", error=done.failure.detail, again_in_s=round(pause_s, 3))
        if isinstance(done.failure, InsufficientFunds):
            self._funds.notice()
        elif isinstance(done.failure, TransactionRefused) and done.failure.program in (None, str(REGISTRY)):
            # Only the registry refuses for a wrong share.
            self._shares.refused(eligibility.epoch, done.failure)
        return pause_s

    async def _schedule(self, live: LiveEpoch) -> TreeSchedule:
        if self._made is None or self._made[0] != live:
            first = live.phases.active.first
            schedule = await asyncio.to_thread(TreeSchedule.make, live.phases, COMPRESSION_KEY, live.share, first)
            self._made = live, schedule
        return self._made[1]

    def _slot_of(self, last: int) -> int:
        """Return the slot for a window; once the process must end, no window has any time left."""
        return last + 1 if self._stopping.is_set() else self._clock.slot()


def start_compression(
    services: Services,
    supervisor: Supervisor,
    view: CompressibleView,
    *,
    clock: SlotClock,
    shares: LiveShares,
    funds: Funds,
    trees: OutputTrees,
) -> None:
    """Start all tasks of compressible accounts; the settings name the WebSocket of the node."""
    settings = services.settings
    store = CompressibleStore(services.journal)
    tracked = sources(settings.light_pda_programs)
    trackers = [
        AccountTracker(source, services.rpc, store, current_slot=clock.slot, paged=settings.helius_rpc)
        for source in tracked
    ]
    dispatcher = CompressionDispatcher(
        ClosingRounds(
            *(services.rpc, store, services.sender, services.metrics),
            closers=_closers(services, tracked),
            trees=trees,
        ),
        RentClaims(
            *(services.rpc, store, services.sender, services.metrics),
            sources=tracked,
            derivation=given(settings.derivation),
            minimum=settings.claim_min_lamports,
        ),
        clock=clock,
        shares=shares,
        funds=funds,
        stopping=supervisor.stopping,
        poll_s=settings.queue_poll_interval_seconds,
    )
    url = given(settings.ws_rpc_url).get_secret_value()
    for number, tracker in enumerate(trackers):
        supervisor.start(f"compressible_scan_{number}", tracker.run)
        supervisor.start(f"compressible_changes_{number}", tracker.store_changes)
    follow = partial(_follow, services, url, trackers)
    supervisor.start("compressible_subscription", lambda: while_offered(follow))
    supervisor.start("compressible_counts", partial(_show_counts, store, tracked, clock, view))
    supervisor.start("compressible", dispatcher.run, drains=True)


def _closers(services: Services, tracked: Sequence[AccountSource]) -> list[AccountCloser]:
    """Return the closers of token accounts, mints, and programs, in the order of ``sources``."""
    settings, indexer = services.settings, services.indexer
    payer = given(settings.payer).pubkey
    tokens, mints, *programs = tracked
    return [
        TokenAccountCloser(tokens, payer=payer, derivation=given(settings.derivation)),
        MintCloser(mints, indexer, payer=payer),
        *(ProgramAccountCloser(source, services.rpc, indexer, payer=payer) for source in programs),
    ]


async def _follow(services: Services, url: str, trackers: Sequence[AccountTracker]) -> None:
    listener = ChangeListener(trackers)
    wanted = [subscriptions.slots(), *(tracker.source.subscription() for tracker in trackers)]
    async for event in subscriptions.events(services.session, url, wanted):
        listener.notice(event)


async def _show_counts(
    store: CompressibleStore, tracked: Sequence[AccountSource], clock: SlotClock, view: CompressibleView
) -> None:
    loop = asyncio.get_running_loop()
    await store.keep_kinds(kind for source in tracked for kind in source.kinds)
    while True:
        slot, began = clock.slot(), loop.time()
        view.show(slot, await store.counts(slot))
        # A million accounts take an eighth of a second, in which nothing else uses the journal.
        await asyncio.sleep(max(REFRESH_EVERY_S, 50 * (loop.time() - began)))
