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
    """A check failed; the message says what was found and what to do."""

    exit_code = 1


@dataclass(frozen=True)
class CheckResult:
    """Outcome of a check and its duration."""

    name: str
    success: bool
    message: str
    duration_ms: int


def passed(finding: Finding) -> str:
    """Return the finding; CheckFailed if it is a failure."""
    if not finding.fine:
        raise CheckFailed(finding.message)
    return finding.message


async def run_check(name: str, check: Callable[[], Awaitable[str]]) -> CheckResult:
    """Run a check, which returns its finding, or raises ForesterError if it fails.

    Any other error is a failure of this check alone: the findings of the other checks are still reported.
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
    """Return the message for a check that crashed, whose trace is logged at debug level."""
    _log.debug("check_crashed", check=name, exc_info=error)
    said = f": {error}" if str(error) else ""
    return mask(f"unexpected {type(error).__name__}{said}; forester -v logs its trace")
