"""The daemon: clock, epochs, trees and their watchers, composed and run until a stop is requested."""

import asyncio
from collections.abc import Callable
from functools import partial

from solders.pubkey import Pubkey

from forester.chain.tree_metadata import TreeKind, TreeMetadata
from forester.chain.trees import TreeFilter
from forester.compressible.view import CompressibleView
from forester.daemon.clock import SlotClock, follow_slots, poll_slots
from forester.daemon.compression import start_compression
from forester.daemon.epochs import EpochKeeper, EpochParts
from forester.daemon.funds import Funds
from forester.daemon.live_epochs import LiveShares
from forester.daemon.services import Services
from forester.daemon.supervisor import Supervisor
from forester.daemon.trees.discovery import Discovery, Trees
from forester.daemon.trees.dispatch import CLOSE_S, DRAIN_S, DispatchParts, TreeDispatcher
from forester.daemon.trees.processor_factory import make_processor
from forester.daemon.trees.tasks import TreeTasks
from forester.daemon.watches.budget_watch import BudgetWatch
from forester.daemon.watches.chain_events import (
    EPOCHS_SPACING_S,
    GAP_SPACING_S,
    EventListeners,
    follow_spaced,
    watch,
    while_offered,
)
from forester.daemon.watches.heartbeat import Heartbeat
from forester.daemon.watches.key_watch import KeyWatch
from forester.daemon.watches.lookup_table_watch import LookupTableWatch
from forester.errors import ChainWentBack
from forester.journal.rollovers import RolloverStore
from forester.observability.health import HealthBoard
from forester.observability.probes import Probes
from forester.rollover.rollovers import Rollovers
from forester.scheduling.eligibility_window import EligibilityWindow, ProcessingResult
from forester.settings import given
from forester.units import lamports_of
from forester.waiting import first_of
from shared.process.logs import get_logger
from shared.process.shutdown import Shutdown

_log = get_logger(__name__)

STOP_S = DRAIN_S + CLOSE_S + 5.0
"""Maximum seconds for the end of the process: transactions in flight, then proofs under way, then the rest."""

Worked = Callable[[TreeMetadata, ProcessingResult], None]
"""Called after every round."""


class Daemon:
    """One forester. ``run`` returns when it has drained."""

    def __init__(
        self,
        services: Services,
        board: HealthBoard,
        worked: Worked = lambda *_: None,
        probes: Probes | None = None,
        compressible: CompressibleView | None = None,
    ) -> None:
        settings = services.settings
        self._services = services
        self._board = board
        self._worked = worked
        self._supervisor = Supervisor(services.metrics.registry, failed=board.task_failed)
        self._probes = probes or Probes()
        self._compressible = compressible or CompressibleView(services.metrics, settings.light_pda_programs)
        self._probes.watch(lambda: self._supervisor.dead)
        self._clock = SlotClock(silence_s=settings.slot_update_interval_seconds)
        self._trees = TreeTasks(self._supervisor, self._dispatcher)
        self._shares = LiveShares(self._trees.plan_changed)
        payer = given(settings.payer).pubkey
        self._funds = Funds(services.rpc, payer, services.sender, services.metrics, self._funds_changed)
        self._alerts: dict[int, str] = {}
        self._keeper = EpochKeeper(self._epoch_parts(payer), self._supervisor)
        self._rollovers = Rollovers(
            services.rpc,
            services.sender,
            RolloverStore(services.journal),
            derivation=given(settings.derivation),
            maximum_lamports=None if settings.rollover_max_sol is None else lamports_of(settings.rollover_max_sol),
            rent_lamports_per_byte_year=settings.rent_lamports_per_byte_year,
        )
        self._discovery = Discovery(
            services.rpc,
            TreeFilter.from_settings(settings),
            interval_s=settings.tree_discovery_interval_seconds,
            changed=self._trees.set_trees,
            board=board,
        )
        self._gap = asyncio.Event()
        self._epochs_changed = asyncio.Event()
        self._heartbeat = Heartbeat(self._clock, self._keeper, self._supervisor, self._funds, board)

    @property
    def trees(self) -> Trees:
        """The trees that are worked on."""
        return self._discovery.trees

    async def run(self, shutdown: Shutdown) -> None:
        """Run until ``shutdown`` is requested, then drain: transactions in flight end, finished proofs are stored.

        Then raises ChainWentBack if the chain turns out to be far behind: epochs and schedules were computed from
        wrong slots, and a new process reads them again.
        """
        self._start_clock()
        await first_of(self._clock.reach(0), shutdown.wait())
        if not shutdown.requested:
            self._probes.reach("node")
            self._start_work()
            self._probes.reach("tasks")
            await first_of(shutdown.wait(), self._clock.went_back.wait())
        self._probes.draining = True
        drained = await self._supervisor.stop(STOP_S)
        _log.info("drained", complete=drained)
        if self._clock.went_back.is_set() and not shutdown.requested:
            raise ChainWentBack(self._clock.went_back_by)

    def _start_clock(self) -> None:
        services, clock = self._services, self._clock
        interval_s = services.settings.slot_update_interval_seconds
        self._supervisor.start("slots", lambda: poll_slots(clock, services.rpc, interval_s))
        if services.settings.ws_rpc_url is not None:
            url = services.settings.ws_rpc_url.get_secret_value()
            follow = partial(follow_slots, clock, services.session, url)
            self._supervisor.start("slot_subscription", lambda: while_offered(follow))

    def _start_work(self) -> None:
        services, start = self._services, self._supervisor.start
        start("pending_signatures", services.sender.settle_pending)
        start("balance", self._funds.run)
        start("budget", BudgetWatch(services.sender.budget, services.metrics, self._board).run)
        start("epochs", self._keeper.run)
        start("discovery", self._discover)
        if services.settings.ws_rpc_url is not None:
            url = services.settings.ws_rpc_url.get_secret_value()
            follow = partial(watch, services.session, url, self._listeners())
            start("watch", lambda: while_offered(follow))
            start("gaps", lambda: follow_spaced(self._gap, self._after_gap, spacing_s=GAP_SPACING_S))
            wake = partial(follow_spaced, self._epochs_changed, self._keeper.wake, spacing_s=EPOCHS_SPACING_S)
            start("epoch_changes", wake)
        if services.settings.lookup_table_address is not None:
            start("lookup_table", LookupTableWatch(services.lookup_tables, self._board).run)
        if services.settings.compresses_accounts:
            start_compression(
                services,
                self._supervisor,
                self._compressible,
                clock=self._clock,
                shares=self._shares,
                funds=self._funds,
                trees=self._output_trees,
            )
        start("heartbeat", self._heartbeat.run)
        begun = self._clock.slot()
        start("key", KeyWatch(services.rpc, services.sender, self._board, services.metrics, slot=begun).run)

    def _output_trees(self) -> list[TreeMetadata]:
        trees = self._discovery.trees.values()
        return [tree for tree in trees if tree.kind is TreeKind.STATE_V2 and not tree.metadata.is_rolled_over]

    async def _discover(self) -> None:
        await self._discovery.refresh()
        await self._discovery.run()

    def _listeners(self) -> EventListeners:
        def account(address: Pubkey, data: bytes) -> None:
            self._trees.account_changed(address)
            self._discovery.notice(address, data)

        return EventListeners(account, self._epochs_changed.set, self._gap.set)

    def _after_gap(self) -> None:
        self._trees.all_changed()
        self._keeper.wake()
        self._discovery.refresh_soon()

    def _epoch_parts(self, payer: Pubkey) -> EpochParts:
        services = self._services
        return EpochParts(
            rpc=services.rpc,
            sender=services.sender,
            clock=self._clock,
            shares=self._shares,
            metrics=services.metrics,
            authority=payer,
            derivation=given(services.settings.derivation),
            report_alert=self._report_alert,
            in_flight_s=services.settings.longest_in_flight_s,
            unpaid=self._funds.notice,
        )

    def _dispatcher(self, tree: TreeMetadata) -> TreeDispatcher:
        parts = DispatchParts(
            clock=self._clock,
            shares=self._shares,
            funds=self._funds,
            make_processor=partial(make_processor, self._services),
            stopping=self._supervisor.stopping,
            poll_s=self._services.settings.queue_poll_interval_seconds,
            progress=self._progress,
            defect=partial(self._supervisor.count_failure, "tree"),
            roll_over=self._rollovers.roll_over_if_full,
        )
        return TreeDispatcher(tree, parts)

    def _progress(
        self, tree: TreeMetadata, eligibility: EligibilityWindow, done: ProcessingResult, seconds: float
    ) -> None:
        if done.elements and not tree.kind.is_batched:
            # The V2 pipeline counts as its transactions land.
            self._services.metrics.count_processed(eligibility.epoch, done.elements, seconds)
        self._heartbeat.count(done)
        self._worked(tree, done)

    def _funds_changed(self) -> None:
        payer = given(self._services.settings.payer).pubkey
        reason = f"insufficient funds: processing stops until {payer} is topped up"
        self._board.set("funds", None if self._funds.available else reason)
        self._trees.plan_changed()

    def _report_alert(self, epoch: int, reason: str | None) -> None:
        if reason is None:
            self._alerts.pop(epoch, None)
        elif reason:
            self._alerts[epoch] = reason
        else:
            self._alerts = {number: text for number, text in self._alerts.items() if number > epoch}
        reasons = "; ".join(f"epoch {number}: {text}" for number, text in sorted(self._alerts.items()))
        self._board.set("epoch", reasons or None)
