"""The outcome of a check, and how one is run: failures become outcomes, never exceptions."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from forester.errors import ForesterError
from forester.network_status.fitness import Finding


class CheckFailed(ForesterError):
    """A check failed; the message tells what was found and what to do."""

    exit_code = 1


@dataclass(frozen=True)
class CheckResult:
    """What a check found, and how long it took."""

    name: str
    success: bool
    message: str
    duration_ms: int


def passed(finding: Finding) -> str:
    """Return what was found; CheckFailed if it is not as it should be."""
    if not finding.fine:
        raise CheckFailed(finding.message)
    return finding.message


async def run_check(name: str, check: Callable[[], Awaitable[str]]) -> CheckResult:
    """Run a check, which returns what it found and raises ForesterError when that is not as it should be."""
    started = time.monotonic()
    try:
        message, success = await check(), True
    except ForesterError as error:
        message, success = error.detail, False
    return CheckResult(name, success, message, round((time.monotonic() - started) * 1000))
