"""Pauses after expired transactions: a node that reports all as expired causes a few new ones, not hundreds; no I/O.

Only a node reports that a transaction expired and did not land. While all of them expire, new ones are signed one at a
time, with pauses that double. One that lands ends the pauses.
"""

import asyncio
import time
from collections.abc import Callable

from shared.retries import Backoff, jittered

PAUSES = Backoff(2.0, 30.0)


class ExpiryPauses:
    """The pauses of one payer. ``clock`` returns seconds."""

    def __init__(self, pauses: Backoff = PAUSES, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._pauses = pauses
        self._clock = clock
        self._order = asyncio.Lock()
        self._ended = asyncio.Event()
        self._failures = 0
        self._counted_at = 0.0
        self._next = 0.0

    def expired(self, signed_at: float) -> None:
        """Record an expired transaction; those signed before the last pause began count once."""
        if self._failures and signed_at < self._counted_at:
            return
        self._failures += 1
        self._counted_at = self._clock()
        self._next = self._counted_at + jittered(self._pauses, self._failures)
        self._ended.clear()

    def landed(self) -> None:
        """Record a landed transaction."""
        self._failures = 0
        self._ended.set()

    async def wait(self) -> None:
        """Return when another transaction may be signed; callers in a pause follow each other, a pause apart."""
        if not self._failures:
            return
        async with self._order:
            while self._failures and (remaining_s := self._next - self._clock()) > 0:
                try:
                    async with asyncio.timeout(remaining_s):
                        await self._ended.wait()
                except TimeoutError:
                    continue
            if self._failures:
                self._next = self._clock() + jittered(self._pauses, self._failures)
