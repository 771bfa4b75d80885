"""Runs checks concurrently within a limit, and prints their findings."""

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import click

from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RetryPolicy, RpcPool, read_limit
from forester.checks.result import CheckResult, run_check
from forester.settings import Settings, load_settings, require
from shared.rate_limits import TokenBucket
from shared.retries import Backoff

RETRY = RetryPolicy(4, Backoff(0.2, 2.0))
LIMIT_S = 20.0
"""Maximum seconds of all checks together, whatever fails."""

Check = Callable[[], Awaitable[str]]

limit_option = click.option(
    "--timeout",
    "limit_s",
    type=click.FloatRange(0.1, LIMIT_S),
    default=LIMIT_S,
    show_default=True,
    help="Maximum seconds of all checks together.",
)


class Connections:
    """Connections of one command: each check has its own, and all share the limit of reads."""

    def __init__(self, flags: Mapping[str, Any]) -> None:
        self._flags = flags
        self._limit: TokenBucket | None = None

    @asynccontextmanager
    async def open(self, *needs: str, optional: tuple[str, ...] = ()) -> AsyncIterator[tuple[RpcClient, Settings]]:
        """Read the settings of one check and open its connections; yield client and settings.

        Raises SettingsInvalid for settings that are invalid, or missing from ``needs``.
        """
        names = ("rpc_url", "fallback_rpc_url", "rpc_rate_limit", *needs, *optional)
        settings: Settings = load_settings(self._flags, only=names).settings
        require(settings, "rpc_url", *needs)
        async with RpcPool.from_settings(settings, retry=RETRY, reads=self.limit(settings)) as pool:
            yield RpcClient(pool), settings

    def limit(self, settings: Settings) -> TokenBucket | None:
        """Return the limit of reads that all checks share."""
        self._limit = self._limit or read_limit(settings)
        return self._limit


def run_checks(
    checks: Mapping[str, Check], *, limit_s: float, output: str, exit_on_failure: bool, summaries: tuple[str, ...] = ()
) -> None:
    """Run the checks, print their findings, and end with status 1 if one failed and ``exit_on_failure``.

    ``summaries`` are the names that have an object of their own in the JSON format.
    """
    results = asyncio.run(_run(checks, limit_s, output, exit_on_failure, summaries))
    if exit_on_failure and not all(result.success for result in results):
        sys.exit(1)


async def _run(
    checks: Mapping[str, Check], limit_s: float, output: str, exit_on_failure: bool, summaries: tuple[str, ...]
) -> list[CheckResult]:
    results = list(await asyncio.gather(*(_bounded(name, check, limit_s) for name, check in checks.items())))
    click.echo(_as_json(results, summaries) if output == "json" else _as_text(results))
    if any(result.duration_ms >= limit_s * 1000 for result in results):
        _leave(int(exit_on_failure))
    return results


async def _bounded(name: str, check: Check, limit_s: float) -> CheckResult:
    started = time.monotonic()
    try:
        async with asyncio.timeout(limit_s):
            return await run_check(name, check)
    except TimeoutError:
        message = f"no result within {limit_s:g} s; is the service reachable?"
        return CheckResult(name, False, message, round((time.monotonic() - started) * 1000))


def _leave(code: int) -> None:
    """End at once: a thread of the name resolution that hangs would outlast the limit."""
    if any(thread.name.startswith("asyncio_") for thread in threading.enumerate()):
        sys.stdout.flush()
        os._exit(code)


def _as_json(results: list[CheckResult], summaries: tuple[str, ...]) -> str:
    checks = [
        {"name": item.name, "success": item.success, "message": item.message, "duration_ms": item.duration_ms}
        for item in results
    ]
    answer: dict[str, Any] = {"success": all(item.success for item in results), "checks": checks}
    answer |= {item.name: {"healthy": item.success} for item in results if item.name in summaries}
    return json.dumps(answer, indent=2)


def _as_text(results: list[CheckResult]) -> str:
    words = {True: ("✓", "OK"), False: ("✗", "FAIL")}
    lines = []
    for item in results:
        sign, word = words[item.success]
        lines.append(f"{sign} {item.name} [{item.duration_ms} ms] {word}: {item.message}")
    failed = sum(not item.success for item in results)
    closing = f"{failed} of {len(results)} checks failed" if failed else "All checks passed"
    return "\n".join([*lines, "", closing])
