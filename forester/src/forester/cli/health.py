"""``forester health``: is the forester fit to work? Made for cron."""

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import click

from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RetryPolicy, RpcPool
from forester.checks.balance import check_balance
from forester.checks.registration import check_registration
from forester.checks.result import CheckResult, run_check
from forester.cli.command import Command
from forester.cli.options import BooleanWord, output_option, setting_options
from forester.limits.backoff import Backoff
from forester.settings import Settings, given, load_settings, require

LIMIT_S = 20.0
"""The longest that the command takes, whatever fails."""

_RETRY = RetryPolicy(4, Backoff(0.2, 2.0))
_Check = Callable[[RpcClient, Settings], Awaitable[str]]


@click.command(
    cls=Command,
    examples=(
        "forester health --check-balance --min-balance 0.5 --output json | jq .balance.healthy",
        "*/5 * * * * forester health --output json || mail -s 'forester unhealthy' ops@example.com",
    ),
    epilog="Exit codes: 0 all checks passed (or --exit-on-failure false), 1 a check failed, settings that are missing "
    "or invalid included, 2 wrong usage.",
)
@click.option("--check-balance", "balance", is_flag=True, help="Only check that the payer has enough SOL.")
@click.option("--check-registration", "registration", is_flag=True, help="Only check the registration for the epoch.")
@setting_options("rpc_url", "fallback_rpc_url", "payer", "derivation")
@click.option(
    "--min-balance",
    type=click.FloatRange(min=0),
    default=0.01,
    show_default=True,
    help="Least balance of the payer, SOL.",
)
@click.option(
    "--exit-on-failure",
    type=BooleanWord(),
    is_flag=False,
    flag_value="true",
    default="true",
    show_default=True,
    help="Whether a failed check makes the exit status 1.",
)
@click.option(
    "--timeout",
    "limit_s",
    type=click.FloatRange(0.1, LIMIT_S),
    default=LIMIT_S,
    show_default=True,
    help="Seconds that all checks together may take.",
)
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
    chosen = {name for name, wanted in (("balance", balance), ("registration", registration)) if wanted}
    results = asyncio.run(
        _run(chosen or {"balance", "registration"}, flags, min_balance, limit_s, output, exit_on_failure)
    )
    if exit_on_failure and not all(result.success for result in results):
        sys.exit(1)


async def _run(
    chosen: set[str], flags: dict[str, Any], min_balance: float, limit_s: float, output: str, exit_on_failure: bool
) -> list[CheckResult]:
    async def balance(client: RpcClient, settings: Settings) -> str:
        return await check_balance(client, given(settings.payer).pubkey, min_balance)

    async def registration(client: RpcClient, settings: Settings) -> str:
        return await check_registration(client, given(settings.derivation))

    checks: dict[str, tuple[str, _Check]] = {
        "balance": ("payer", balance),
        "registration": ("derivation", registration),
    }
    tasks = [
        asyncio.create_task(_bounded(name, flags, needs, check, limit_s))
        for name, (needs, check) in checks.items()
        if name in chosen
    ]
    results = [await task for task in tasks]
    click.echo(_as_json(results) if output == "json" else _as_text(results))
    if any(result.duration_ms >= limit_s * 1000 for result in results):
        _leave(1 if exit_on_failure else 0)
    return results


async def _bounded(name: str, flags: dict[str, Any], needs: str, check: _Check, limit_s: float) -> CheckResult:
    started = time.monotonic()

    async def connected() -> str:
        settings = load_settings(flags, only=("rpc_url", "fallback_rpc_url", needs)).settings
        require(settings, "rpc_url", needs)
        async with RpcPool.from_settings(settings, retry=_RETRY) as pool:
            return await check(RpcClient(pool), settings)

    try:
        async with asyncio.timeout(limit_s):
            return await run_check(name, connected)
    except TimeoutError:
        message = f"no result within {limit_s:g} s; is the RPC node reachable?"
        return CheckResult(name, False, message, round((time.monotonic() - started) * 1000))


def _leave(code: int) -> None:
    """End at once where a thread of the name resolution may still hang, which would outlast the limit."""
    if any(thread.name.startswith("asyncio_") for thread in threading.enumerate()):
        sys.stdout.flush()
        os._exit(code)


def _as_json(results: list[CheckResult]) -> str:
    checks = [
        {"name": item.name, "success": item.success, "message": item.message, "duration_ms": item.duration_ms}
        for item in results
    ]
    answer: dict[str, Any] = {"success": all(item.success for item in results), "checks": checks}
    answer |= {item.name: {"healthy": item.success} for item in results}
    return json.dumps(answer, indent=2)


def _as_text(results: list[CheckResult]) -> str:
    words = {True: ("✓", "OK"), False: ("✗", "FAIL")}
    lines = []
    for item in results:
        sign, word = words[item.success]
        lines.append(f"{sign} {item.name} [{item.duration_ms} ms] {word}: {item.message}")
    passed = all(item.success for item in results)
    failed = sum(not item.success for item in results)
    closing = "All checks passed" if passed else f"{failed} of {len(results)} checks failed"
    return "\n".join([*lines, "", closing])
