"""A rate limit; callers beyond it wait."""

import asyncio
import time
from collections.abc import Callable


class TokenBucket:
    """At most ``per_second`` passes each second over time, ``burst`` at once after a pause.

    Callers pass in the order of their calls. ``clock`` returns seconds.
    """

    def __init__(self, per_second: float, burst: int = 1, *, clock: Callable[[], float] = time.monotonic) -> None:
        if per_second <= 0 or burst < 1:
            raise ValueError(f"a rate of {per_second} per second with a burst of {burst} lets no call pass")
        self._interval = 1 / per_second
        self._tolerance = self._interval * (burst - 1)
        self._clock = clock
        self._next = clock()

    def reserve(self) -> float:
        """Reserve the next pass; return the seconds until it may be used."""
        now = self._clock()
        at = max(self._next, now - self._tolerance)
        self._next = at + self._interval
        return max(0.0, at - now)

    async def wait(self) -> None:
        """Reserve the next pass and sleep until it may be used."""
        delay = self.reserve()
        if delay > 0:
            await asyncio.sleep(delay)
