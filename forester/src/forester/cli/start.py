"""``forester start``: the daemon."""

import asyncio
import json
import sys
from dataclasses import asdict
from typing import Any

import click

from forester.api.monitoring import watching
from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RpcPool
from forester.cli.checks.run import RETRY
from forester.cli.checks.start import is_hopeless, require_for_start, run_start_checks
from forester.cli.options import output_option, refused_options, setting_options
from forester.daemon.daemon import Daemon
from forester.daemon.plan import make_plan, plan_text
from forester.daemon.services import journal_path, open_services
from forester.environment import variables
from forester.errors import SettingsInvalid
from forester.loop_pauses import limit_pauses
from forester.observability.health import HealthBoard
from forester.observability.metrics import Metrics
from forester.observability.probes import Probes
from forester.settings import Settings, given, load_settings
from forester.settings.reference_only import REFERENCE_ONLY, ignored_variables
from forester.waiting import first_of
from shared.process.command_line import Command
from shared.process.logs import get_logger
from shared.process.shutdown import Shutdown

_log = get_logger(__name__)


@click.command(
    cls=Command,
    examples=(
        "forester start",
        "forester start --tree-id bmt1LryLZUMmF7ZtqESaw7wifBXLfXHQYoE4GAmrahU --processor-mode v2",
        "forester start --dry-run",
    ),
    epilog="SIGTERM and SIGINT drain: transactions in flight end, proofs under way are stored in the journal for the "
    "next start; a second signal ends the process at once. Exit codes: 0 stopped by a signal, 1 a check failed (dry "
    "run), 2 usage, 65 a newer release wrote the journal, 69 a service is unreachable (dry run), 75 the chain is far "
    "behind the reported slots (start again), 78 configuration, or journal in use or unusable, 130 and 143 by a second "
    "signal.",
)
@setting_options(*(name for name in Settings.model_fields if name != "forester_api_urls"))
@refused_options(REFERENCE_ONLY)
@click.option("--dry-run", is_flag=True, help="Print the plan and the checks; send and write nothing.")
@output_option
def start(dry_run: bool, output: str, **flags: Any) -> None:
    """Register for epochs and process the assigned trees, until a signal."""
    settings = load_settings(flags).settings
    require_for_start(settings)
    for sentence in ignored_variables(variables()):
        _log.warning("variable_ignored", detail=sentence)
    if dry_run:
        sys.exit(asyncio.run(_dry_run(settings, output)))
    asyncio.run(_run(settings))


async def _run(settings: Settings) -> None:
    shutdown = Shutdown()
    shutdown.install()
    metrics, board = Metrics(), HealthBoard()
    async with (
        open_services(settings, metrics) as services,
        watching(
            settings, metrics, board, services.rpc, journal=services.journal, budget=services.sender.budget
        ) as watcher,
    ):
        _log.info("starting", payer=str(given(settings.payer).pubkey), journal=str(journal_path(settings)))
        await first_of(_checked(settings, watcher.probes), shutdown.wait())
        daemon = Daemon(services, board, watcher.worked, watcher.probes, watcher.compressible)
        watcher.choose(lambda tree: tree.address in daemon.trees)
        limit_pauses()
        await daemon.run(shutdown)
    _log.info("stopped")


async def _checked(settings: Settings, probes: Probes) -> None:
    """Log failed checks. Raises SettingsInvalid for failures that no wait resolves; services may come up later."""
    for item in await run_start_checks(settings):
        if item.success:
            _log.info("start_check", check=item.name, found=item.message)
            if item.name == "indexer":
                probes.reach(item.name)
        elif is_hopeless(item):
            raise SettingsInvalid(f"{item.name}: {item.message}")
        else:
            _log.warning("start_check_failed", check=item.name, reason=item.message)


async def _dry_run(settings: Settings, output: str) -> int:
    async with RpcPool.from_settings(settings, retry=RETRY) as pool:
        plan = await make_plan(RpcClient(pool), settings, str(journal_path(settings)))
    results = await run_start_checks(settings)
    if output == "json":
        checks = [{"name": item.name, "success": item.success, "message": item.message} for item in results]
        click.echo(json.dumps(asdict(plan) | {"checks": checks}, indent=2))
    else:
        for line in plan_text(plan):
            click.echo(line)
        for item in results:
            click.echo(f"{'✓' if item.success else '✗'} {item.name}: {item.message}")
    return int(not all(item.success for item in results))
