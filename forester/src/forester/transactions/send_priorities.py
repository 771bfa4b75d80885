"""Order in which transactions that wait get the slots in flight: by the priority of their purpose, then as they came.

A backlog of V1 keeps hundreds of callers waiting for hours. In one queue with them, the actions of an epoch and the
batches of a short window would pass their deadlines unsigned.
"""

import asyncio
import contextlib
import enum
import functools
import heapq
import itertools
from collections.abc import AsyncIterator, Callable

from forester.transactions.expiry import ExpiryPauses


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


class SendingSlots:
    """Slots for ``maximum`` transactions in flight; callers get them by priority, and in their order within a priority.

    A new transaction also waits until ``pauses`` allow a signature. Its caller holds no slot meanwhile, so the first
    one after a pause is the most urgent one of all that wait by then. If it signs nothing, the next one may.
    """

    def __init__(self, maximum: int, pauses: ExpiryPauses) -> None:
        self._free = maximum
        self._pauses = pauses
        self._new: list[tuple[int, int, asyncio.Future[None]]] = []
        self._repeated: list[tuple[int, int, asyncio.Future[None]]] = []
        self._unsigned: set[asyncio.Future[None]] = set()
        self._arrivals = itertools.count()
        self._after_pause: asyncio.TimerHandle | None = None

    @contextlib.asynccontextmanager
    async def slot(self, priority: int, *, repeated: bool) -> AsyncIterator[Callable[[], None]]:
        """Wait for a slot and hold it; ``repeated`` is true for a transaction that is already signed.

        The caller calls the value after it has signed a new transaction.
        """
        granted = asyncio.get_running_loop().create_future()
        heapq.heappush(self._repeated if repeated else self._new, (priority, next(self._arrivals), granted))
        self._grant()
        try:
            await granted
            yield functools.partial(self._signed, granted)
        finally:
            # Also a slot that was granted in the moment of the cancellation.
            if granted.done() and not granted.cancelled():
                self._free += 1
                self._unsigned.discard(granted)
                self._grant()

    def _signed(self, granted: asyncio.Future[None]) -> None:
        self._unsigned.discard(granted)
        self._pauses.signed()
        self._grant()

    def _grant(self) -> None:
        """Give free slots to those that may have them.

        Called after each arrival, signature, return and pause. A landed transaction ends the pauses, then returns its
        slot.
        """
        while self._free and (queue := self._first_queue()):
            _, _, granted = heapq.heappop(queue)
            if granted.done():
                continue
            if queue is self._new:
                self._unsigned.add(granted)
            self._free -= 1
            granted.set_result(None)
        if self._after_pause is not None:
            self._after_pause.cancel()
            self._after_pause = None
        if self._new and (remaining_s := self._pauses.remaining_s):
            self._after_pause = asyncio.get_running_loop().call_later(remaining_s, self._grant)

    def _first_queue(self) -> list[tuple[int, int, asyncio.Future[None]]]:
        """Return the queue of the most urgent caller that may have a slot now, empty if there is none."""
        paused = self._pauses.remaining_s or (self._pauses.one_at_a_time and self._unsigned)
        queues = [self._repeated] if paused else [self._repeated, self._new]
        return min(filter(None, queues), default=[])
