"""Pauses before another attempt, and tasks that are restarted after them.

Pauses double from 200 ms to 8 s with full jitter; a server's Retry-After comes first
(forester/docs/reference/behaviour.md, "Retries").
"""

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_RETRY_AFTER_S = 60.0
"""Longer pauses that a server requests are cut to this: the deadline of the caller decides, not a header."""


@dataclass(frozen=True)
class Backoff:
    """Pauses that double from ``first_s`` to ``longest_s``."""

    first_s: float = 0.2
    longest_s: float = 8.0

    def wait_s(self, failures: int, fraction: float) -> float:
        """Return the pause in seconds after ``failures``; the caller draws ``fraction`` in [0, 1) (full jitter)."""
        doublings = min(max(failures - 1, 0), 32)
        return min(self.first_s * math.ldexp(1.0, doublings), self.longest_s) * fraction

    def pause_s(self, failures: int, retry_after_s: float | None = None) -> float:
        """Return the pause of a call in seconds: a server's Retry-After if it gives one, and full jitter.

        The jitter comes on top: clients that were refused together must not return together.
        """
        return (retry_after_s or 0.0) + self.wait_s(failures, random.random())  # noqa: S311 - keeps nothing secret


def jittered(backoff: Backoff, failures: int, retry_after_s: float | None = None) -> float:
    """Return the pause of a background task in seconds: between half of the bound and all of it.

    It is not shorter than a server's Retry-After.
    """
    wait_s = backoff.wait_s(failures, 0.5 + random.random() / 2)  # noqa: S311 - spreads load, keeps nothing secret
    return max(retry_after_s or 0.0, wait_s)


def read_retry_after(
    text: str | None, now: datetime | None = None, longest_s: float = LONGEST_RETRY_AFTER_S
) -> float | None:
    """Return the seconds of a Retry-After header, at most ``longest_s``; None if it is unusable.

    ``now`` has a time zone; without it the clock is read.
    """
    text = (text or "").strip()
    if text.isascii() and text.isdecimal():
        return min(float(text[:9]), longest_s)
    try:
        moment = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    if moment.tzinfo is None:
        return None
    return min(max((moment - (now or datetime.now(UTC))).total_seconds(), 0.0), longest_s)


async def run_restarting(
    work: Callable[[], Awaitable[object]],
    backoff: Backoff,
    failed: Callable[[Exception, int, float], None],
    *,
    steady_s: float,
    pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> None:
    """Run ``work`` until it returns, again after each failure and a pause.

    ``failed`` is called with the error, the consecutive failures and the seconds of the pause. An attempt that took
    ``steady_s`` begins the count again. A true result of ``pause`` ends the attempts.
    """
    failures = 0
    while True:
        began = time.monotonic()
        try:
            await work()
            return
        except Exception as error:  # noqa: BLE001 - any error is reported, and the work restarted
            failures = 1 if time.monotonic() - began >= steady_s else failures + 1
            pause_s = jittered(backoff, failures)
            failed(error, failures, pause_s)
        if await pause(pause_s):
            return
