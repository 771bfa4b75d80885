"""Requests per second of each API key."""

import time
from collections.abc import Callable
from math import ceil

from prover.errors import RateLimited
from shared.process.rate_limits import TokenBucket


class RateLimiter:
    """Limits per name: ``rate`` requests per second, and ``burst`` at once after a pause; rate 0 is unlimited.

    Names come from the configured keys, so their number is bounded.
    """

    def __init__(self, rate: float, burst: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._buckets: dict[str, TokenBucket] = {}

    def take(self, name: str) -> None:
        """Count a request of a key. Raises RateLimited with the time after which the next one is allowed."""
        if not self._rate:
            return
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = TokenBucket(self._rate, self._burst, clock=self._clock)
        wait_s = bucket.take()
        if wait_s:
            raise RateLimited(
                f"API key {name!r} may send {self._rate:g} requests per second",
                retry_after_s=max(1, ceil(wait_s)),
            )
