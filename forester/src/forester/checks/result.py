"""The outcome of a check, and how one is run: failures become outcomes, never exceptions."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from forester.errors import ForesterError
from forester.network_status.fitness import Finding
from forester.redaction import mask
from shared.logs import get_logger

_log = get_logger(__name__)


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
    """Run a check, which returns what it found and raises ForesterError when that is not as it should be.

    Any other error is a failure of this check alone: what the other checks found is still to be told.
    """
    started = time.monotonic()
    try:
        message, success = await check(), True
    except ForesterError as error:
        message, success = error.detail, False
    except Exception as error:  # noqa: BLE001 - a bug, or a library's own kind of error
        message, success = crash_of(name, error), False
    return CheckResult(name, success, message, round((time.monotonic() - started) * 1000))


def crash_of(name: str, error: Exception) -> str:
    """What is told of a check that crashed, whose trace is logged for those who look for it."""
    _log.debug("check_crashed", check=name, exc_info=error)
    said = f": {error}" if str(error) else ""
    return mask(f"unexpected {type(error).__name__}{said}; forester -v tells its trace")
