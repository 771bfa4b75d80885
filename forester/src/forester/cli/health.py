"""``forester health``: checks for cron that the forester is fit to work."""

from collections.abc import Mapping
from typing import Any

import aiohttp
import click

from forester.checks.registration import check_registration
from forester.checks.result import CheckResult
from forester.cli.checks.run import Check, Connections, Push, balance_check, limit_option, run_checks
from forester.cli.options import BooleanWord, min_balance_option, output_option, setting_options
from forester.errors import SettingsInvalid
from forester.observability.metrics import CheckMetrics
from forester.observability.push_gateway import push
from forester.settings import given, load_settings
from forester.settings.sources import FlagInvalid
from shared.process.command_line import Command

_NAMES = ("balance", "registration")


@click.command(
    cls=Command,
    examples=(
        "forester health --check-balance --min-balance 0.5 --output json | jq .balance.healthy",
        "forester health --exit-code-by-cause --output json >> health.jsonl",
    ),
    epilog="Exit codes: 0 all checks passed (or --exit-on-failure false), 1 a check failed, including missing or "
    "invalid settings, 2 wrong usage. With --exit-code-by-cause: 3 insufficient funds, 4 not registered, 69 a service "
    "is unreachable or failed, 70 internal, 75 timeout or rate limit, 78 configuration, 1 other failures.",
)
@click.option("--check-balance", "balance", is_flag=True, help="Only check that the payer has enough SOL.")
@click.option("--check-registration", "registration", is_flag=True, help="Only check the registration for the epoch.")
@setting_options("rpc_url", "fallback_rpc_url", "rpc_rate_limit", "payer", "derivation", "push_gateway_url")
@min_balance_option
@click.option(
    "--exit-on-failure",
    type=BooleanWord(),
    is_flag=False,
    flag_value="true",
    default="true",
    show_default=True,
    help="Exit with status 1 if a check fails.",
)
@click.option("--exit-code-by-cause", "by_cause", is_flag=True, help="Exit with the status of the cause instead of 1.")
@limit_option
@output_option
def health(
    balance: bool,
    registration: bool,
    min_balance: float,
    exit_on_failure: bool,
    by_cause: bool,
    limit_s: float,
    output: str,
    **flags: Any,
) -> None:
    """Check the payer's balance and the registration for the latest epoch; both unless one is chosen."""
    connections = Connections(flags)

    async def registration_check() -> str:
        async with connections.open("derivation", optional=("payer",)) as (client, settings):
            authority = None if settings.payer is None else settings.payer.pubkey
            return await check_registration(client, given(settings.derivation), authority)

    checks: dict[str, Check] = {
        "balance": balance_check(connections, min_balance),
        "registration": registration_check,
    }
    chosen = {name for name, wanted in zip(_NAMES, (balance, registration), strict=True) if wanted} or set(_NAMES)
    run_checks(
        {name: check for name, check in checks.items() if name in chosen},
        limit_s=limit_s,
        output=output,
        exit_on_failure=exit_on_failure,
        by_cause=by_cause,
        summaries=_NAMES,
        push=_push_of(flags),
    )


def _push_of(flags: Mapping[str, Any]) -> Push | None:
    """Return the sender of the findings, None without a push gateway; with invalid settings one that fails."""
    try:
        gateway = load_settings(flags, only=("push_gateway_url",)).settings.push_gateway_url
    except FlagInvalid:
        raise
    except SettingsInvalid as error:
        invalid = error

        async def fail(_: list[CheckResult]) -> str:
            raise invalid

        return fail
    if gateway is None:
        return None
    url = gateway.get_secret_value()

    async def send(results: list[CheckResult]) -> str:
        async with aiohttp.ClientSession() as session:
            await push(session, url, CheckMetrics({item.name: item.success for item in results}))
        return "sent"

    return send
