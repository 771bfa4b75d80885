"""The outcome of a check, and how one is run: failures become outcomes, never exceptions."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from forester.errors import (
    AccountMissing,
    EndpointError,
    EndpointTimedOut,
    EndpointUnreachable,
    ForesterError,
    RateLimited,
    SettingsInvalid,
)
from forester.network_status.fitness import Finding
from forester.redaction import mask
from shared.process.logs import get_logger

_log = get_logger(__name__)


INSUFFICIENT_FUNDS = "insufficient_funds"
NOT_REGISTERED = "not_registered"
TIMED_OUT = "timeout"
CONFIGURATION = "configuration"
SKIPPED = "skipped"
WARNING = "warning"
FAILED = "failed"
_CODES: tuple[tuple[type[ForesterError], str], ...] = (
    (SettingsInvalid, CONFIGURATION),
    (AccountMissing, CONFIGURATION),
    (EndpointTimedOut, TIMED_OUT),
    (EndpointUnreachable, "unreachable"),
    (RateLimited, "rate_limited"),
    (EndpointError, "service_failed"),
)
"""Codes of errors, the first match counts. A missing account means that the settings name another cluster."""


class CheckFailed(ForesterError, exit_code=1):
    """A check failed; the message says what was found and what to do."""

    def __init__(self, detail: str, *, code: str = FAILED) -> None:
        super().__init__(detail)
        self.code = code


class CheckWarned(ForesterError, exit_code=0):
    """A check found something that does not keep a forester from working."""


@dataclass(frozen=True)
class CheckResult:
    """Outcome of a check and its duration.

    ``code`` is the cause (forester/docs/how-to/health.md, "Codes"), None if all is well.
    """

    name: str
    success: bool
    message: str
    duration_ms: int
    code: str | None = None


def passed(finding: Finding, code: str) -> str:
    """Return the finding; CheckFailed with a code if it is a failure."""
    if not finding.fine:
        raise CheckFailed(finding.message, code=code)
    return finding.message


def code_of(error: ForesterError) -> str:
    """Return the code of a failed check."""
    if isinstance(error, CheckFailed):
        return error.code
    return next((code for kind, code in _CODES if isinstance(error, kind)), FAILED)


async def run_check(
    name: str, check: Callable[[], Awaitable[str]], within_s: float | None = None, limit_s: float | None = None
) -> CheckResult:
    """Run a check, which returns its finding, or raises ForesterError if it fails, for ``within_s`` seconds at most.

    Any other error is a failure of this check alone: the findings of the other checks are still reported. ``limit_s``
    is the limit that the message names, if it is another one.
    """
    started, limit = time.monotonic(), asyncio.timeout(within_s)
    code: str | None = None
    try:
        async with limit:
            message = await check()
    except CheckWarned as error:
        message, code = error.detail, WARNING
    except ForesterError as error:
        message, code = error.detail, code_of(error)
    except Exception as error:  # noqa: BLE001 - a bug, or a library's own kind of error
        if limit.expired():
            message, code = f"no result within {limit_s or within_s:g} s; is the service reachable?", TIMED_OUT
        else:
            message, code = crash_of(name, error), "internal"
    return CheckResult(name, code in (None, WARNING), message, round((time.monotonic() - started) * 1000), code)


def crash_of(name: str, error: Exception) -> str:
    """Return the message for a check that crashed, whose trace is logged at debug level."""
    _log.debug("check_crashed", check=name, exc_info=error)
    said = f": {error}" if str(error) else ""
    return mask(f"unexpected {type(error).__name__}{said}; forester -v logs its trace")
