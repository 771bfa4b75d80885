"""Bounds of the pauses of the event loop: collections of garbage, threads, many requests at once."""

import asyncio
import gc
import sys
from collections import deque

_SWITCH_S = 0.001


def limit_pauses() -> None:
    """Shorten the pauses of this process; call it once, when everything has been loaded.

    A collection that visits all modules takes 50 ms, so they are exempt. The loop gets the interpreter back from a
    thread after a millisecond instead of five.
    """
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(_SWITCH_S)


class Pacer:
    """Gate that lets at most ``maximum`` callers pass in one iteration of the event loop, in the order of arrival.

    200 clients that poll in the same moment would otherwise be answered in one iteration.
    """

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._passed = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def wait(self) -> None:
        """Return in this iteration, or in a later one."""
        loop = asyncio.get_running_loop()
        if self._passed == 0:
            loop.call_soon(self._begin_iteration)
        if self._passed < self._maximum:
            self._passed += 1
            return
        turn = loop.create_future()
        self._waiting.append(turn)
        await turn

    def _begin_iteration(self) -> None:
        self._passed = 0
        while self._waiting and self._passed < self._maximum:
            turn = self._waiting.popleft()
            if not turn.done():  # its caller has not gone away
                turn.set_result(None)
                self._passed += 1
        if self._passed:
            asyncio.get_running_loop().call_soon(self._begin_iteration)
