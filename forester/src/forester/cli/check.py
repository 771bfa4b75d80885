"""``forester check``: checks that everything the forester needs exists, answers, and fits together."""

from typing import Any

import click

from forester.checks.host import check_host
from forester.checks.journal_path import check_journal
from forester.checks.result import CONFIGURATION, CheckFailed
from forester.cli.checks.network import PROVERS, network_checks
from forester.cli.checks.run import Check, Connections, limit_option, run_checks
from forester.cli.checks.start import require_for_start
from forester.cli.options import min_balance_option, output_option, setting_options
from forester.daemon.services import journal_path
from forester.environment import variables
from forester.settings import load_settings
from forester.settings.sources import unknown_variables
from shared.process.command_line import Command

_OPTIONS = (
    *("rpc_url", "ws_rpc_url", "fallback_rpc_url", "rpc_rate_limit"),
    *("indexer_url", "fallback_indexer_url", *PROVERS, "prover_api_key"),
    *("payer", "derivation", "processor_mode", "tree_ids", "group_authority", "journal_path"),
)


@click.command(
    cls=Command,
    examples=("forester check", "forester check --output json | jq '.checks[] | select(.success | not)'"),
    epilog="Exit codes: 0 all checks passed, 1 a check failed, 2 wrong usage.",
)
@setting_options(*_OPTIONS)
@min_balance_option
@limit_option
@output_option
def check(min_balance: float, limit_s: float, output: str, **flags: Any) -> None:
    """Check settings, machine, nodes, protocol, payer, admission, trees, indexers, provers, journal; send nothing."""
    run_checks(_checks(flags, min_balance), limit_s=limit_s, output=output, skip_repeated=True)


def _checks(flags: dict[str, Any], min_balance: float) -> dict[str, Check]:
    connections = Connections(flags)

    async def settings_check() -> str:
        require_for_start(load_settings(flags).settings)
        unknown = unknown_variables(variables())
        if unknown:
            raise CheckFailed("; ".join(unknown), code=CONFIGURATION)
        return "all valid; forester config show prints them"

    async def journal_check() -> str:
        return check_journal(journal_path(connections.settings("journal_path")))

    async def host_check() -> str:
        return check_host(journal_path(connections.settings("journal_path")))

    return {
        "settings": settings_check,
        "host": host_check,
        **network_checks(connections, min_balance),
        "journal": journal_check,
    }
