"""Expiry of blockhashes, from heights and statuses of nodes of which one may lag; no I/O."""

from collections import deque

from forester.chain.rpc_client import BlockHeight

_KEPT = 64


class BlockHeights:
    """The latest reported heights.

    A node that is behind does not know the status of later transactions. "No status" therefore means that a transaction
    has not landed only if the node had reached the height at which the transaction expired.
    """

    def __init__(self) -> None:
        self._reported: deque[BlockHeight] = deque(maxlen=_KEPT)

    def add(self, height: BlockHeight) -> None:
        """Record a height; a slot counts once: many callers report, and all slots must fit."""
        if all(height.slot != known.slot for known in self._reported):
            self._reported.append(height)

    def expired(self, last_valid_block_height: int, slot: int) -> bool:
        """Return whether a blockhash had expired by ``slot``, at which no status was found."""
        return any(height.block > last_valid_block_height and height.slot <= slot for height in self._reported)
