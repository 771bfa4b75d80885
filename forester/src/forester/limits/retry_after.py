"""The pause that a server requests with Retry-After, shared by all callers of the server."""

import asyncio
import time
from collections.abc import Callable


class RetryAfterGate:
    """The pause of one server. ``clock`` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = 0.0

    def close_for(self, seconds: float) -> None:
        """Close the gate for this long; an earlier, longer pause stays."""
        self._until = max(self._until, self._clock() + seconds)

    @property
    def remaining_s(self) -> float:
        """Seconds until calls are allowed."""
        return max(0.0, self._until - self._clock())

    async def wait(self) -> None:
        """Wait until calls are allowed."""
        while (left := self.remaining_s) > 0:  # noqa: ASYNC110 - it waits for time
            await asyncio.sleep(left)
