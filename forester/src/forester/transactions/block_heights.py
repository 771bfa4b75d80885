"""Which blockhashes had expired at a slot, where height and statuses may be told by nodes of which one lags; no I/O."""

from collections import deque

from forester.chain.rpc_client import BlockHeight

_KEPT = 64


class BlockHeights:
    """The latest heights that were told.

    A node that is behind knows no status of what has landed since: only one that is at least as far as a height can say
    that a transaction which this height outdates has not landed.
    """

    def __init__(self) -> None:
        self._told: deque[BlockHeight] = deque(maxlen=_KEPT)

    def add(self, height: BlockHeight) -> None:
        """Take in a height; of one slot, or of an earlier one than before, once: many ask, and all slots are to fit."""
        if not self._told or height.slot > self._told[-1].slot:
            self._told.append(height)

    def expired(self, last_valid_block_height: int, slot: int) -> bool:
        """Whether a blockhash had expired by ``slot``, at which no status was found."""
        return any(told.block > last_valid_block_height and told.slot <= slot for told in self._told)
