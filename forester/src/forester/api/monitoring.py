"""Composition of all that monitors a forester: snapshot, progress, alerts, push gateway, and the API over them.

It runs next to the daemon, not inside it, so it also reports while the daemon starts, fails and drains.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

from forester.alerts.events import EVENTS_URL, Origin
from forester.alerts.pager import Pager
from forester.api.app import serving_api
from forester.api.dashboard_routes import Dashboard
from forester.api.routes import Monitoring, compressible_object
from forester.api.service_readings import ServiceReadings
from forester.api.service_watch import ServiceWatch, service_checks
from forester.chain.rpc_client import RpcClient
from forester.chain.tree_metadata import TreeMetadata
from forester.compressible.view import CompressibleView
from forester.dashboard.activity import ActivityDocument
from forester.dashboard.history import Sampler
from forester.dashboard.own_activity import balance_of, own_activity
from forester.dashboard.source import DashboardSource
from forester.journal.database import Journal
from forester.journal.samples import SampleStore
from forester.network_status.fitness import FitnessWatch
from forester.network_status.snapshot import REFRESH_EVERY_S, SnapshotKeeper, reading
from forester.network_status.state import NetworkState
from forester.network_status.symptoms import show_progress, symptom_of
from forester.observability.health import TASK_QUIET_S, HealthBoard
from forester.observability.metrics import Metrics
from forester.observability.probes import Probes
from forester.observability.progress import ProgressWatch
from forester.observability.push_gateway import push_periodically
from forester.scheduling.eligibility_window import ProcessingResult
from forester.settings import Settings, given
from forester.transactions.spending import SpendingBudget
from shared.process.logs import get_logger
from shared.process.retries import Backoff, run_restarting

_log = get_logger(__name__)

UNWATCHED_REFRESH_EVERY_S = 300.0
"""Without API, push gateway and alerts, the snapshot serves only the log."""

LAST_ALERTS_S = 2.0
_RESTARTS = Backoff(1.0, 60.0)

Work = Callable[[], Awaitable[None]]


class Watcher:
    """Monitoring as the daemon sees it: ``worked`` reports each round, ``choose`` selects our trees."""

    def __init__(
        self,
        settings: Settings,
        metrics: Metrics,
        board: HealthBoard,
        client: RpcClient,
        *,
        journal: Journal | None,
        budget: SpendingBudget | None,
        events_url: str,
    ) -> None:
        payer, derivation = given(settings.payer).pubkey, given(settings.derivation)
        metrics.payer.labels(str(payer)).set(1)
        self._ours: Callable[[TreeMetadata], bool] = lambda _: True
        self._progress = ProgressWatch(metrics, board)
        key, gateway = settings.pagerduty_routing_key, settings.push_gateway_url
        is_watched = settings.api_server_port is not None or key is not None or gateway is not None
        every_s = REFRESH_EVERY_S if is_watched else UNWATCHED_REFRESH_EVERY_S
        snapshots = SnapshotKeeper(reading(client, payer), metrics, board, every_s=every_s)
        snapshots.subscribe(FitnessWatch(board, payer=payer, derivation=derivation).show)
        snapshots.subscribe(self._show_progress)
        self.probes = Probes()
        self.probes.follow(board)
        self.compressible = CompressibleView(metrics, settings.light_pda_programs)
        self._metrics, self._board, self._payer, self._budget = metrics, board, str(payer), budget
        self._sampler: Sampler | None = None
        source = DashboardSource(
            *(snapshots, board, self.probes),
            rpc_url="" if settings.rpc_url is None else settings.rpc_url.get_secret_value(),
            compressible=lambda: compressible_object(self.state),
            activity=self._activity,
        )
        self.state = Monitoring(metrics, board, snapshots, self.probes, self.compressible, dashboard=Dashboard(source))
        self.address: tuple[str, int] | None = None
        """Address at which the API listens; None if the settings name no port."""
        self.tasks: dict[str, Work] = {"snapshot": snapshots.run, "progress": self._progress.run}
        if is_watched and (checks := service_checks(settings, client)):
            self.tasks["services"] = ServiceWatch(board, checks).run
        if settings.api_server_port is not None:
            self.tasks["network"] = lambda: source.identify(client)
            self.tasks["readings"] = ServiceReadings(settings, client, metrics.services).run
        if journal is not None:
            store = SampleStore(journal)
            self._sampler = Sampler(store, metrics, snapshots, lambda: balance_of(metrics, str(payer)))
            self.tasks["samples"] = self._sampler.run
        if gateway is not None:
            url = gateway.get_secret_value()
            self.tasks["push"] = lambda: push_periodically(url, metrics)
        self.pager: Pager | None = None
        if key is not None:
            origin = Origin(str(payer), socket.gethostname())
            self.pager = Pager(key.get_secret_value(), origin, url=events_url)
            self.pager.follow(board)
            self.tasks["alerts"] = self.pager.run

    def choose(self, ours: Callable[[TreeMetadata], bool]) -> None:
        """Watch the progress of these trees only; without this call, of all."""
        self._ours = ours

    def worked(self, tree: TreeMetadata, done: ProcessingResult) -> None:
        """Record the result of a round."""
        self._progress.worked(str(tree.address), done.elements, symptom_of(done.failure))

    def _activity(self) -> ActivityDocument:
        return own_activity(
            *(self._payer, self._metrics, self._board, self.probes),
            trees=self._progress.trees,
            budget=self._budget,
            history=None if self._sampler is None else self._sampler.history,
        )

    def _show_progress(self, state: NetworkState) -> None:
        show_progress(self._progress, state, lambda item: self._ours(item.tree))


@contextlib.asynccontextmanager
async def watching(
    settings: Settings,
    metrics: Metrics,
    board: HealthBoard,
    client: RpcClient,
    *,
    journal: Journal | None = None,
    budget: SpendingBudget | None = None,
    events_url: str = EVENTS_URL,
) -> AsyncIterator[Watcher]:
    """Watch, and serve the API, during the block. Raise SettingsInvalid for a port in use.

    ``settings`` name payer and derivation key; ``journal`` keeps the samples of the last day, ``budget`` is the
    sender's. Alerts go to ``events_url`` if there is a routing key; those that wait at the end are still sent, for
    LAST_ALERTS_S at most.
    """
    watcher = Watcher(settings, metrics, board, client, journal=journal, budget=budget, events_url=events_url)
    async with serving_api(settings, watcher.state) as watcher.address:
        tasks = [
            asyncio.create_task(_supervised(name, work, board), name=f"monitoring {name}")
            for name, work in watcher.tasks.items()
        ]
        watcher.probes.watch(lambda: [task.get_name() for task in tasks if task.done()])
        try:
            yield watcher
        finally:
            watcher.probes.draining = True
            if watcher.pager is not None:
                await watcher.pager.drain(LAST_ALERTS_S)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


async def _supervised(name: str, work: Work, board: HealthBoard) -> None:
    """Run work that never ends; restart it when it fails."""

    def failed(error: Exception, failures: int, _: float) -> None:
        _log.error("task_crashed", task=name, failures=failures, exc_info=error)
        board.task_failed(name, failures, type(error).__name__)

    await run_restarting(work, _RESTARTS, failed, steady_s=TASK_QUIET_S)
