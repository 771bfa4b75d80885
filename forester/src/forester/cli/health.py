"""``forester health``: checks for cron that the forester is fit to work."""

from typing import Any

import click

from forester.checks.balance import check_balance
from forester.checks.registration import check_registration
from forester.cli.checking import Check, Connections, limit_option, run_checks
from forester.cli.options import BooleanWord, min_balance_option, output_option, setting_options
from forester.settings import given
from shared.command_line import Command

_NAMES = ("balance", "registration")


@click.command(
    cls=Command,
    examples=(
        "forester health --check-balance --min-balance 0.5 --output json | jq .balance.healthy",
        "*/5 * * * * forester health --output json || mail -s 'forester unhealthy' ops@example.com",
    ),
    epilog="Exit codes: 0 all checks passed (or --exit-on-failure false), 1 a check failed, including missing or "
    "invalid settings, 2 wrong usage.",
)
@click.option("--check-balance", "balance", is_flag=True, help="Only check that the payer has enough SOL.")
@click.option("--check-registration", "registration", is_flag=True, help="Only check the registration for the epoch.")
@setting_options("rpc_url", "fallback_rpc_url", "rpc_rate_limit", "payer", "derivation")
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
@limit_option
@output_option
def health(
    balance: bool,
    registration: bool,
    min_balance: float,
    exit_on_failure: bool,
    limit_s: float,
    output: str,
    **flags: Any,
) -> None:
    """Check the payer's balance and the registration for the latest epoch; both unless one is chosen."""
    connections = Connections(flags)

    async def balance_check() -> str:
        async with connections.open("payer") as (client, settings):
            return await check_balance(client, given(settings.payer).pubkey, min_balance)

    async def registration_check() -> str:
        async with connections.open("derivation") as (client, settings):
            return await check_registration(client, given(settings.derivation))

    checks: dict[str, Check] = {"balance": balance_check, "registration": registration_check}
    chosen = {name for name, wanted in zip(_NAMES, (balance, registration), strict=True) if wanted} or set(_NAMES)
    run_checks(
        {name: check for name, check in checks.items() if name in chosen},
        limit_s=limit_s,
        output=output,
        exit_on_failure=exit_on_failure,
        summaries=_NAMES,
    )
