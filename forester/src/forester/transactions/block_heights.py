"""Expiry of blockhashes, from heights and statuses of nodes of which one may lag; no I/O."""

from collections import deque

from forester.chain.rpc_client import BlockHeight

_KEPT = 64


class BlockHeights:
    """The latest reported heights.

    A node that is behind knows no status of later transactions: only one that is at least as far as a height can show
    that a transaction which expired at that height has not landed.
    """

    def __init__(self) -> None:
        self._told: deque[BlockHeight] = deque(maxlen=_KEPT)

    def add(self, height: BlockHeight) -> None:
        """Record a height; a slot that is not newer counts once: many callers report, and all slots must fit."""
        if not self._told or height.slot > self._told[-1].slot:
            self._told.append(height)

    def expired(self, last_valid_block_height: int, slot: int) -> bool:
        """Return whether a blockhash had expired by ``slot``, at which no status was found."""
        return any(told.block > last_valid_block_height and told.slot <= slot for told in self._told)
