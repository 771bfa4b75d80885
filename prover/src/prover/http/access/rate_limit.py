"""Token buckets, and the requests per second of each API key."""

import time
from math import ceil

from prover.errors import RateLimited


class TokenBucket:
    """``burst`` tokens, refilled by ``rate`` per second."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = self._tokens = burst
        self._since = time.monotonic()

    def take(self) -> float:
        """Take a token and return 0, or take none and return the seconds until there is one."""
        now = time.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._since) * self._rate)
        self._since = now
        if self._tokens < 1:
            return (1 - self._tokens) / self._rate
        self._tokens -= 1
        return 0


class RateLimiter:
    """Limits per name: ``rate`` requests per second, and ``burst`` at once after a pause; rate 0 is unlimited.

    Names come from the configured keys, so their number is bounded.
    """

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = burst
        self._buckets: dict[str, TokenBucket] = {}

    def take(self, name: str) -> None:
        """Count a request of a key. Raises RateLimited with the time after which the next one is allowed."""
        if not self._rate:
            return
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = TokenBucket(self._rate, self._burst)
        wait_s = bucket.take()
        if wait_s:
            raise RateLimited(
                f"API key {name!r} may send {self._rate:g} requests per second",
                retry_after_s=max(1, ceil(wait_s)),
            )
