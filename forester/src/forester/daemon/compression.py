"""Compressible accounts in the daemon: trackers, dispatch in the eligibility windows of the zero key, and counts."""

import asyncio
from collections.abc import Sequence
from functools import partial

from forester.chain import subscriptions
from forester.compressible.claiming import RentClaims
from forester.compressible.closers import AccountCloser, MintCloser, ProgramAccountCloser, TokenAccountCloser
from forester.compressible.closing import ClosingRounds, OutputTrees
from forester.compressible.sources import AccountSource, sources
from forester.compressible.tracker import AccountTracker, ChangeListener
from forester.compressible.view import REFRESH_EVERY_S, CompressibleView
from forester.daemon.clock import SlotClock
from forester.daemon.funds import Funds
from forester.daemon.live_epochs import LiveShares
from forester.daemon.rounds import EligibleRounds, RoundParts
from forester.daemon.services import Services
from forester.daemon.supervisor import Supervisor
from forester.daemon.watches.chain_events import while_offered
from forester.journal.compressible import CompressibleStore
from forester.scheduling.eligibility_window import ProcessingResult
from forester.scheduling.tree_schedule import COMPRESSION_KEY
from forester.settings import given
from forester.waiting import Wait, first_of
from shared.process.logs import bind

_LOOK_S = 5.0
"""Longest interval of looks for a share, which needs no call."""


class CompressionDispatcher:
    """Closes accounts and claims rent in our windows of the zero key while we are registered and have funds.

    Closing pays, and what is due for long may cost its owner more: so claims follow once nothing is left to close.
    """

    def __init__(self, closing: ClosingRounds, claims: RentClaims, parts: RoundParts) -> None:
        self._closing = closing
        self._claims = claims
        self._parts = parts
        self._rounds = EligibleRounds(COMPRESSION_KEY, parts)

    async def run(self) -> None:
        """Work until the process must end; a round under way may finish."""
        with bind(kind="Compressible"):
            while not self._parts.stopping.is_set():
                await self._once()

    async def _once(self) -> None:
        """Work on one round if a window is open, then wait for the next look."""
        parts = self._parts
        live = parts.shares.at(parts.clock.slot()) if parts.funds.available else None
        eligibility = None if live is None else await self._rounds.next_window(live)
        if eligibility is None:
            await self._wait(min(parts.poll_s, _LOOK_S))
            return
        window = eligibility.window
        if parts.clock.slot() < window.first:
            await self._wait(_LOOK_S, until_slot=window.first)  # the share may change before
            return
        done = await self._closing.work(eligibility)
        if done.failure is None and not done.more:
            claimed = await self._claims.work(eligibility)
            done = ProcessingResult(done.elements + claimed.elements, more=claimed.more, failure=claimed.failure)
        if done.failure is not None:
            await self._wait(min(self._rounds.failed(eligibility.epoch, done.failure), parts.poll_s))
            return
        self._rounds.succeeded()
        if not (done.elements and done.more):
            await self._wait(parts.poll_s, until_slot=window.last + 1)

    async def _wait(self, seconds: float, *, until_slot: int | None = None) -> None:
        waits: list[Wait] = [self._parts.stopping.wait()]
        if until_slot is not None:
            waits.append(self._parts.clock.reach(until_slot))
        await first_of(*waits, timeout_s=seconds)


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
        RoundParts(
            clock=clock,
            shares=shares,
            funds=funds,
            stopping=supervisor.stopping,
            poll_s=settings.queue_poll_interval_seconds,
            defect=partial(supervisor.count_failure, "compressible"),
        ),
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
