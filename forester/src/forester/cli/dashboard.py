"""``forester dashboard``: the monitoring API alone, of the network and of several foresters."""

import asyncio
from functools import partial
from typing import Any

import click

from forester.api.app import serving_api
from forester.api.dashboard_routes import Dashboard
from forester.api.merging import merged_foresters
from forester.api.routes import Monitoring, compressible_object
from forester.api.upstreams import Upstreams
from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RpcPool
from forester.cli.options import setting_options
from forester.daemon.supervisor import Supervisor
from forester.dashboard.source import DashboardSource
from forester.loop_pauses import limit_pauses
from forester.network_status.snapshot import SnapshotKeeper, reading
from forester.network_status.state import NetworkState
from forester.observability.health import HealthBoard
from forester.observability.metrics import Metrics
from forester.observability.probes import STEPS, Probes
from forester.settings import Settings, given, load_settings, require
from shared.process.command_line import Command
from shared.process.logs import get_logger
from shared.process.shutdown import Shutdown

_log = get_logger(__name__)

DEFAULT_PORT = 8080
_SETTINGS = (
    *("rpc_url", "fallback_rpc_url", "rpc_rate_limit", "prometheus_url"),
    *("api_server_port", "api_server_public_bind", "forester_api_urls"),
)


@click.command(
    cls=Command,
    examples=(
        "forester dashboard --rpc-url https://api.devnet.solana.com",
        "forester dashboard --forester-api-url http://forester-1:8080 --forester-api-url http://forester-2:8080",
    ),
    epilog="It needs no keys, sends nothing and writes nothing. SIGTERM and SIGINT stop it.",
)
@setting_options("rpc_url", "fallback_rpc_url", "rpc_rate_limit")
@click.option(
    "--port", "api_server_port", metavar="INTEGER", help=f"Port of the API. Default: {DEFAULT_PORT}. [API_SERVER_PORT]"
)
@click.option(
    "--public-bind",
    "api_server_public_bind",
    metavar="[true|false]",
    is_flag=False,
    flag_value="true",
    help="Let the API listen on all interfaces instead of 127.0.0.1. Default: false. [API_SERVER_PUBLIC_BIND]",
)
@setting_options("prometheus_url", "forester_api_urls")
def dashboard(**flags: Any) -> None:
    """Serve a page and a read-only API of the network and of several foresters, without keys."""
    settings = load_settings(flags, only=_SETTINGS).settings
    require(settings, "rpc_url")
    asyncio.run(_run(settings))


async def _run(settings: Settings) -> None:
    shutdown = Shutdown()
    shutdown.install()
    if settings.api_server_port is None:
        settings = settings.model_copy(update={"api_server_port": DEFAULT_PORT})
    metrics, board, probes = Metrics(), HealthBoard(), Probes()
    supervisor = Supervisor(metrics.registry, failed=board.task_failed)
    probes.watch(lambda: supervisor.dead)
    upstreams = Upstreams([url.get_secret_value() for url in settings.forester_api_urls])
    async with RpcPool.from_settings(settings) as pool:
        snapshots = SnapshotKeeper(reading(RpcClient(pool)), metrics, board)
        snapshots.subscribe(partial(_reach_all, probes))
        merged = upstreams if settings.forester_api_urls else None
        client = RpcClient(pool)
        source = DashboardSource(
            *(snapshots, board, probes),
            rpc_url=given(settings.rpc_url).get_secret_value(),
            compressible=lambda: compressible_object(state),
            others=lambda: merged_foresters(upstreams.views),
        )
        state = Monitoring(metrics, board, snapshots, probes, upstreams=merged, dashboard=Dashboard(source))
        async with serving_api(settings, state):
            supervisor.start("snapshot", snapshots.run)
            supervisor.start("network", lambda: source.identify(client))
            if merged is not None:
                supervisor.start("upstreams", merged.run)
            limit_pauses()
            await shutdown.wait()
            probes.draining = True
            await supervisor.stop(0.0)
    _log.info("stopped")


def _reach_all(probes: Probes, _: NetworkState) -> None:
    """Record that the start has succeeded: the network has been read."""
    for step in STEPS:
        probes.reach(step)
