"""Comparison of the hash chains of V2 queues with those on chain.

Source: forester/docs/reference/indexer.md, "Consistency checks".
"""

import sqlite3
from dataclasses import dataclass

from localnet.base58 import encode
from localnet.indexer.accounts.queue_accounts import QueueAccount
from localnet.indexer.database.trees import Tree
from shared.trees.poseidon import hash_chain

_ELEMENTS = {
    "leaves": "SELECT hash FROM accounts WHERE tree = ? AND leaf_index BETWEEN ? AND ? ORDER BY leaf_index",
    "nullifiers": "SELECT nullifier FROM accounts WHERE tree = ? AND queue_index BETWEEN ? AND ? ORDER BY queue_index",
    "addresses": "SELECT address FROM address_queue WHERE tree = ? AND queue_index BETWEEN ? AND ?"
    " ORDER BY queue_index",
}
LEAVES, NULLIFIERS, ADDRESSES = _ELEMENTS


@dataclass(slots=True)
class _Progress:
    """Number of compared elements; ``chain`` is that of the open zkp batch, empty if it has none yet."""

    count: int
    chain: bytes = b""


class QueueChains:
    """Comparison with a position for each queue, so that each element is hashed once."""

    def __init__(self) -> None:
        self._progress: dict[tuple[int, str], _Progress] = {}

    def difference(
        self, connection: sqlite3.Connection, tree: Tree, kind: str, worked_off: int, queue: QueueAccount
    ) -> str | None:
        """Compare elements queued since the last call; return the difference, None if there is none.

        ``worked_off`` elements are in the tree: their proofs were verified, and the store may have removed them.
        """
        progress = self._progress.get((tree.id, kind))
        if progress is None or progress.count < worked_off:
            progress = _Progress(worked_off)
        size = queue.zkp_batch_size
        while progress.count < queue.next_index:
            start = progress.count
            end = min(start - start % size + size, queue.next_index)
            rows = connection.execute(_ELEMENTS[kind], (tree.id, start, end - 1)).fetchall()
            if len(rows) != end - start:
                return f"{len(rows)} {kind} from {start} to {end - 1} here, {end - start} on chain"
            chain = hash_chain(progress.chain + b"".join(value for (value,) in rows))
            theirs = queue.chain_of(start)
            if theirs is not None and chain != theirs:
                return (
                    f"hash chain of {kind} from {start - start % size} {encode(chain)} here, {encode(theirs)} on chain"
                )
            progress = _Progress(end, chain if end % size else b"")
        self._progress[tree.id, kind] = progress
        return None
