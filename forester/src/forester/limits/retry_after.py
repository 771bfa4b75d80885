"""The rest that a server asks for with Retry-After: all who would call it keep it, not only the one that was told."""

import asyncio
import time
from collections.abc import Callable


class RetryAfterGate:
    """One server's. ``clock`` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = 0.0

    def ask(self, seconds: float) -> None:
        """Let nobody call for so long; an earlier, longer rest stays."""
        self._until = max(self._until, self._clock() + seconds)

    @property
    def remaining_s(self) -> float:
        """Seconds until calls are welcome."""
        return max(0.0, self._until - self._clock())

    async def over(self) -> None:
        """Wait until calls are welcome."""
        while (left := self.remaining_s) > 0:  # noqa: ASYNC110 - it is time that is waited for
            await asyncio.sleep(left)
