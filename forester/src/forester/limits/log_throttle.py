"""Limit on repeated log lines; no I/O."""

import time
from collections.abc import Callable


class LogThrottle:
    """Limit of one line every ``apart_s`` seconds, with the number of events since the last one."""

    def __init__(self, apart_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._apart_s = apart_s
        self._clock = clock
        self._next = clock()
        self._count = 0

    def due(self) -> int:
        """Count one event; return the number since the last line if another line is due, otherwise 0."""
        self._count += 1
        now = self._clock()
        if now < self._next:
            return 0
        self._next = now + self._apart_s
        count, self._count = self._count, 0
        return count
