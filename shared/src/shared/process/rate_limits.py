"""Limits of rates: token buckets, and log lines that events may cause. ``clock`` returns seconds."""

import asyncio
import time
from collections.abc import Callable


class TokenBucket:
    """At most ``per_second`` passes each second over time, and ``burst`` at once after a pause."""

    def __init__(self, per_second: float, burst: int = 1, *, clock: Callable[[], float] = time.monotonic) -> None:
        if per_second <= 0 or burst < 1:
            raise ValueError(f"a rate of {per_second} per second with a burst of {burst} lets no call pass")
        self._interval = 1 / per_second
        self._tolerance = self._interval * (burst - 1)
        self._clock = clock
        self._next = clock() - self._tolerance

    def reserve(self) -> float:
        """Reserve the next pass; return the seconds until it may be used. Callers pass in the order of their calls."""
        now = self._clock()
        at = max(self._next, now - self._tolerance)
        self._next = at + self._interval
        return max(0.0, at - now)

    def take(self) -> float:
        """Use a pass and return 0, or use none and return the seconds until there is one."""
        wait_s = self._next - self._clock()
        return wait_s if wait_s > 0 else self.reserve()

    async def wait(self) -> None:
        """Reserve the next pass and sleep until it may be used."""
        delay = self.reserve()
        if delay > 0:
            await asyncio.sleep(delay)


class LogThrottle:
    """Limit of one line every ``apart_s`` seconds, ``burst`` at once, with the number of events since the last one."""

    def __init__(self, apart_s: float, burst: int = 1, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._lines = TokenBucket(1 / apart_s, burst, clock=clock)
        self._count = 0

    def due(self) -> int:
        """Count one event; return the number since the last line if another line is due, otherwise 0."""
        self._count += 1
        if self._lines.take():
            return 0
        count, self._count = self._count, 0
        return count
