"""Waiting for events, for a limited time, and pauses after failures."""

import asyncio
import math
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

Wait = Coroutine[Any, Any, Any]


@dataclass
class RetryPause:
    """Pause after each failure; ``seconds`` returns its length for the number of consecutive failures."""

    seconds: Callable[[int], float]
    clock: Callable[[], float]
    failures: int = 0
    _until: float = field(default=-math.inf, init=False)

    @property
    def is_over(self) -> bool:
        """Return whether no pause is under way."""
        return self.clock() >= self._until

    def failed(self) -> float:
        """Count a failure and begin its pause; return the seconds."""
        self.failures += 1
        pause_s = self.seconds(self.failures)
        self._until = self.clock() + pause_s
        return pause_s

    def succeeded(self) -> None:
        """End the pause, and count from zero again."""
        self.failures, self._until = 0, -math.inf


async def first_of(*waits: Wait, timeout_s: float | None = None) -> None:
    """Return when one of ``waits`` has ended or the time is over; the rest are cancelled. Their errors are raised."""
    tasks = [asyncio.ensure_future(item) for item in waits]
    try:
        done, _ = await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def occurs_within(event: asyncio.Event, seconds: float | None) -> bool:
    """Wait until an event is set or the time is over, None for any time; return whether it is set."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False
