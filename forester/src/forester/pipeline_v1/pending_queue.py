"""The elements that wait in a V1 queue: read once per window, when it is known to have changed, and when used up.

The account has 1.4 MB. A caller that requests work when none is known does so because the queue may have changed.
"""

import asyncio
import random
from collections.abc import Container, Iterable

from solders.pubkey import Pubkey

from forester.chain.concurrent_accounts import QUEUE_HEAD_BYTES, QueueCell, pending_cells
from forester.chain.rpc_client import RpcClient
from forester.scheduling.eligibility_window import EligibilityWindow

CELL_BYTES = 48


class PendingQueue:
    """One queue; cells before ``start``, and the values in ``apart_from``, are skipped."""

    def __init__(self, rpc: RpcClient, queue: Pubkey, *, start: int = 0, apart_from: Container[bytes] = ()) -> None:
        self._rpc = rpc
        self._queue = queue
        self._start = start
        self._apart_from = apart_from
        self._cells: dict[bytes, QueueCell] = {}
        self._window: tuple[int, int] | None = None
        self._changed = True

    def changed(self) -> None:
        """Record that the account has changed since it was read."""
        self._changed = True

    async def read_if_due(self, eligibility: EligibilityWindow | None) -> None:
        """Read the queue if the known state is old; before a window begins, ``eligibility`` is None.

        Raises EndpointError, AccountMissing and MalformedAccount.
        """
        window = (eligibility.epoch, eligibility.window.first) if eligibility is not None else None
        if not self._changed and window == self._window and self.waiting():
            return
        # The answer may lack a change that is reported while it is under way.
        self._changed = False
        try:
            data = await self._data()
            cells = await asyncio.to_thread(lambda: list(pending_cells(data, self._start)))
        except BaseException:
            self._changed = True
            raise
        # Addresses inserted in ascending order send the program from each to the next, until its calls are too deep;
        # and the forester of the last window may still be sending from the first cell on.
        random.shuffle(cells)
        self._cells = {cell.value: cell for cell in cells}
        self._window = window

    def __contains__(self, value: object) -> bool:
        """Return whether an element was in the queue when it was read."""
        return value in self._cells

    def waiting(self) -> list[QueueCell]:
        """Return the known waiting elements."""
        return [cell for cell in self._cells.values() if cell.value not in self._apart_from]

    def remove(self, values: Iterable[bytes]) -> None:
        """Forget elements that have left the queue."""
        for value in values:
            self._cells.pop(value, None)

    async def _data(self) -> bytes:
        if self._start == 0:
            return (await self._rpc.existing_account(self._queue, "the queue of a V1 tree")).data
        end = QUEUE_HEAD_BYTES + CELL_BYTES * self._start
        what = "the queue of a V1 tree"
        head = await self._rpc.existing_account(self._queue, what, length=QUEUE_HEAD_BYTES)
        rest = await self._rpc.existing_account(self._queue, what, start=end, length=_WHOLE)
        return head.data[:QUEUE_HEAD_BYTES].ljust(end, b"\0") + rest.data


_WHOLE = 10 * 2**20
"""Longer than any account: a slice may end after its end."""
