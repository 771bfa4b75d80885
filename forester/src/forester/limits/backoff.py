"""Pauses before another attempt; no I/O.

Pauses double from 200 ms to 8 s with full jitter; a server's Retry-After comes first
(forester/docs/reference/behaviour.md, "Retries").
"""

import math
import random
from dataclasses import dataclass
from datetime import datetime
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


def jittered(backoff: Backoff, failures: int) -> float:
    """Return the pause of a background task in seconds: between half of the bound and all of it."""
    return backoff.wait_s(failures, 0.5 + random.random() / 2)  # noqa: S311 - spreads load, keeps nothing secret


def read_retry_after(text: str | None, now: datetime) -> float | None:
    """Return the seconds of a Retry-After header, at most LONGEST_RETRY_AFTER_S; None if it is unusable.

    ``now`` needs a time zone.
    """
    if not text:
        return None
    text = text.strip()
    if text.isascii() and text.isdecimal():
        return min(float(text[:9]), LONGEST_RETRY_AFTER_S)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, IndexError):
        return None
    if moment.tzinfo is None:
        return None
    return min(max((moment - now).total_seconds(), 0.0), LONGEST_RETRY_AFTER_S)
