"""Order in which transactions that wait get the slots in flight: by the priority of their purpose, then as they came.

A backlog of V1 keeps hundreds of callers waiting for hours. In one queue with them, the actions of an epoch and the
batches of a short window would pass their deadlines unsigned.
"""

import asyncio
import contextlib
import enum
import heapq
import itertools
from collections.abc import AsyncIterator


class Priority(enum.IntEnum):
    """Priority of a transaction; the lowest number comes first."""

    EPOCH = 0
    """An epoch whose registration or report is missed earns nothing, and a registration takes one transaction."""
    BATCHES = 1
    """V2 batches and rollovers: few transactions, in short windows."""
    OTHER = 2
    """Work that fills all slots while it has a backlog: V1 elements, accounts, rent."""


_PRIORITIES = {
    **dict.fromkeys(("register", "finalize", "report"), Priority.EPOCH),
    **dict.fromkeys(("v2_batches", "rollover"), Priority.BATCHES),
}


def priority_of(purpose: str) -> Priority:
    """Return the priority of transactions with a purpose, as the journal names it."""
    return _PRIORITIES.get(purpose, Priority.OTHER)


class PrioritySemaphore:
    """Slots for ``maximum`` holders; those who wait get them by priority, and in their order within a priority."""

    def __init__(self, maximum: int) -> None:
        self._free = maximum
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = itertools.count()

    @contextlib.asynccontextmanager
    async def slot(self, priority: int) -> AsyncIterator[None]:
        """Wait for a slot and hold it."""
        granted = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (priority, next(self._arrivals), granted))
        self._grant()
        try:
            await granted
            yield
        finally:
            # Also a slot that was granted in the moment of the cancellation.
            if granted.done() and not granted.cancelled():
                self._free += 1
                self._grant()

    def _grant(self) -> None:
        while self._free and self._waiting:
            _, _, granted = heapq.heappop(self._waiting)
            if not granted.done():
                self._free -= 1
                granted.set_result(None)
