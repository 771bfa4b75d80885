"""Requests per second of each API key: a token bucket per name."""

import time
from math import ceil

from prover.errors import RateLimited


class RateLimiter:
    """Lets every name send ``rate`` requests per second, and ``burst`` at once after a pause; rate 0 lets all pass.

    Names come from the configured keys, so their number is bounded.
    """

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, name: str) -> None:
        """Count one request of a key; raises RateLimited with the time after which the next one passes."""
        if not self._rate:
            return
        now = time.monotonic()
        tokens, since = self._buckets.get(name, (self._burst, now))
        tokens = min(self._burst, tokens + (now - since) * self._rate)
        if tokens < 1:
            self._buckets[name] = tokens, now
            raise RateLimited(
                f"API key {name!r} may send {self._rate:g} requests per second",
                retry_after_s=max(1, ceil((1 - tokens) / self._rate)),
            )
        self._buckets[name] = tokens - 1, now
