"""Runs checks concurrently within a limit, and prints their findings."""

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import click

from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RetryPolicy, RpcPool, read_limit
from forester.checks.balance import check_balance
from forester.checks.result import (
    CONFIGURATION,
    INSUFFICIENT_FUNDS,
    NOT_REGISTERED,
    SKIPPED,
    TIMED_OUT,
    WARNING,
    CheckResult,
    run_check,
)
from forester.cli.command import command_start_s
from forester.settings import Settings, given, load_settings, require
from shared.process.rate_limits import TokenBucket
from shared.process.retries import Backoff

RETRY = RetryPolicy(4, Backoff(0.2, 2.0))
LIMIT_S = 20.0
"""Maximum seconds from the start of the process to the findings, whatever fails."""
_PUSH_S = 3.0
"""Seconds of the limit that are kept for sending the findings."""
_LEAST_S = 0.1

EXIT_CODES = {
    INSUFFICIENT_FUNDS: 3,
    NOT_REGISTERED: 4,
    CONFIGURATION: 78,
    "unreachable": 69,
    "service_failed": 69,
    TIMED_OUT: 75,
    "rate_limited": 75,
    "internal": 70,
}
"""Exit codes by cause; of several causes the first counts."""

Check = Callable[[], Awaitable[str]]
Push = Callable[[list[CheckResult]], Awaitable[str]]
"""Sends the findings; raises ForesterError."""

limit_option = click.option(
    "--timeout",
    "limit_s",
    type=click.FloatRange(0.1, LIMIT_S),
    default=LIMIT_S,
    show_default=True,
    help="Maximum seconds from the start of the process to the findings.",
)


class Connections:
    """Connections of one command: each check has its own, and all share the limit of reads."""

    def __init__(self, flags: Mapping[str, Any], settings: Settings | None = None) -> None:
        """``settings`` are those of all checks; None lets each check read its own, with these ``flags``."""
        self._flags = flags
        self._settings = settings
        self._limit: TokenBucket | None = None

    @asynccontextmanager
    async def open(
        self, *needs: str, optional: tuple[str, ...] = (), with_fallback: bool = True
    ) -> AsyncIterator[tuple[RpcClient, Settings]]:
        """Read the settings of one check and open its connections; yield client and settings.

        Without ``with_fallback`` the client calls the first node alone. Raises SettingsInvalid for settings that are
        invalid, or missing from ``needs``.
        """
        names = ("rpc_url", "fallback_rpc_url", "rpc_rate_limit", *needs, *optional)
        settings = self.settings(*names)
        require(settings, "rpc_url", *needs)
        nodes = settings if with_fallback else settings.model_copy(update={"fallback_rpc_url": None})
        async with RpcPool.from_settings(nodes, retry=RETRY, reads=self.limit(settings)) as pool:
            yield RpcClient(pool), settings

    def settings(self, *names: str) -> Settings:
        """Return the settings of one check. Raises SettingsInvalid for invalid ones."""
        return self._settings or load_settings(self._flags, only=names).settings

    def limit(self, settings: Settings) -> TokenBucket | None:
        """Return the limit of reads that all checks share."""
        self._limit = self._limit or read_limit(settings)
        return self._limit


def balance_check(connections: Connections, min_balance: float) -> Check:
    """Return the check of the payer's balance, which several commands have."""

    async def check() -> str:
        async with connections.open("payer") as (client, settings):
            return await check_balance(client, given(settings.payer).pubkey, min_balance)

    return check


def run_checks(
    checks: Mapping[str, Check],
    *,
    limit_s: float,
    output: str,
    exit_on_failure: bool = True,
    by_cause: bool = False,
    summaries: tuple[str, ...] = (),
    push: Push | None = None,
    skip_repeated: bool = False,
) -> None:
    """Run the checks, print their findings, and end with status 1 if one failed and ``exit_on_failure``.

    ``by_cause`` requests the status of the cause. ``summaries`` are the names that have an object of their own in the
    JSON format. ``skip_repeated`` reports a check that only repeats why an earlier one failed as skipped.
    """
    deadline = max(time.monotonic() + _LEAST_S, command_start_s() + limit_s)

    async def run() -> int:
        results = await _run(checks, deadline, limit_s, push)
        if skip_repeated:
            results = _without_repetition(results)
        click.echo(_as_json(results, summaries) if output == "json" else _as_text(results))
        code = exit_code_of(results, by_cause) if exit_on_failure else 0
        if any(result.code == TIMED_OUT for result in results):
            _leave(code)  # here, since the end of the event loop waits for threads
        return code

    if code := asyncio.run(run()):
        sys.exit(code)


def exit_code_of(results: list[CheckResult], by_cause: bool) -> int:
    """Return 0 if all checks passed, else 1 or the exit code of the first cause."""
    failed = {result.code for result in results if not result.success} - {SKIPPED}
    if not failed:
        return 0
    return next((code for cause, code in EXIT_CODES.items() if cause in failed), 1) if by_cause else 1


async def _run(checks: Mapping[str, Check], deadline: float, limit_s: float, push: Push | None) -> list[CheckResult]:
    checked_by = deadline if push is None else max(time.monotonic() + _LEAST_S, deadline - _PUSH_S)
    now = time.monotonic()
    running = [run_check(name, check, checked_by - now, limit_s) for name, check in checks.items()]
    results = list(await asyncio.gather(*running))
    if push is not None:
        sent = await run_check("push_gateway", lambda: push(results), max(deadline - time.monotonic(), 1), limit_s)
        if not sent.success:
            results.append(sent)
    return results


def _without_repetition(results: list[CheckResult]) -> list[CheckResult]:
    """Return the results; a failure that has the cause of an earlier one becomes a skipped check.

    The earlier one is ``settings`` for every other check of the configuration, else the first with the same message.
    """
    first: dict[str, str] = {}
    settings_fault = next((item.message for item in results if item.name == "settings" and not item.success), None)
    seen = []
    for item in results:
        cause = first.get(item.message)
        known = item.message
        if settings_fault is not None and item.code == CONFIGURATION and item.name != "settings":
            cause, known = "settings", settings_fault
        if item.success or cause is None:
            if not item.success:
                first[item.message] = item.name
            seen.append(item)
        else:
            others = "; ".join(part for part in item.message.split("; ") if part not in known)
            why = f"not checked, because {cause} failed" + (f": {others}" if others else "")
            seen.append(replace(item, message=why, code=SKIPPED))
    return seen


def _leave(code: int) -> None:
    """End at once: a thread of the name resolution that hangs would outlast the limit."""
    if any(thread.name.startswith("asyncio_") for thread in threading.enumerate()):
        sys.stdout.flush()
        os._exit(code)


def _as_json(results: list[CheckResult], summaries: tuple[str, ...]) -> str:
    checks = [
        {
            "name": item.name,
            "success": item.success,
            "code": item.code,
            "message": item.message,
            "duration_ms": item.duration_ms,
        }
        for item in results
    ]
    answer: dict[str, Any] = {"success": all(item.success for item in results), "checks": checks}
    answer |= {item.name: {"healthy": item.success, "code": item.code} for item in results if item.name in summaries}
    return json.dumps(answer)


def _as_text(results: list[CheckResult]) -> str:
    words = {SKIPPED: ("-", "SKIPPED"), WARNING: ("!", "WARN")}
    lines = []
    for item in results:
        sign, word = words.get(item.code or "", ("✓", "OK") if item.success else ("✗", "FAIL"))
        lines.append(f"{sign} {item.name} [{item.duration_ms} ms] {word}: {item.message}")
    skipped = sum(item.code == SKIPPED for item in results)
    failed = sum(not item.success for item in results) - skipped
    closing = f"{failed} of {len(results)} checks failed" if failed else "All checks passed"
    return "\n".join([*lines, "", f"{closing}, {skipped} skipped" if skipped else closing])
