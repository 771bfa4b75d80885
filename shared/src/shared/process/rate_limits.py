"""Limits of rates: token buckets, and log lines that events may cause. ``clock`` returns seconds."""

import asyncio
import time
from collections.abc import Callable

_LATE_S = 0.1
"""Lateness of sleeps that later calls make up for; after longer stalls calls do not pass all at once."""


class TokenBucket:
    """At most ``per_second`` passes each second over time, and ``burst`` at once after a pause."""

    def __init__(self, per_second: float, burst: int = 1, *, clock: Callable[[], float] = time.monotonic) -> None:
        if per_second <= 0 or burst < 1:
            raise ValueError(f"a rate of {per_second} per second with a burst of {burst} lets no call pass")
        self._interval = 1 / per_second
        self._tolerance = self._interval * (burst - 1)
        self._clock = clock
        self._next = clock() - self._tolerance
        self._waiters = asyncio.Lock()

    def take(self) -> float:
        """Use a pass and return 0, or use none and return the seconds until there is one."""
        now = self._clock()
        if self._next > now:
            return self._next - now
        self._use(now)
        return 0.0

    async def wait(self) -> None:
        """Sleep until there is a pass, and use it. Callers pass in the order of their calls; a cancelled one uses none.

        All callers must run in one event loop.
        """
        called = self._clock()
        # A pass used before the sleep would be lost to a cancelled call, and all later calls would wait for it.
        async with self._waiters:
            wait_s = self._next - self._clock()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            # Not the time after the sleep: sleeps that end a little late do not reduce the rate.
            self._use(max(called, self._clock() - _LATE_S))

    def _use(self, called: float) -> None:
        self._next = max(self._next, called - self._tolerance) + self._interval


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
