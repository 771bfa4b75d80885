"""Comparison of trees with their accounts on chain (forester/docs/reference/indexer.md, "Consistency checks")."""

import logging
import sqlite3

from localnet.base58 import encode
from localnet.chain.network import Network
from localnet.indexer.accounts.queue_accounts import QueueAccount, decode_output_queue, decode_tree_queue
from localnet.indexer.accounts.v1_queue_accounts import decode_v1_queue
from localnet.indexer.database.store import Store
from localnet.indexer.database.trees import Tree, all_trees, save_tree
from localnet.indexer.following.feed import read_queue, read_tree
from localnet.indexer.following.queue_chains import ADDRESSES, LEAVES, NULLIFIERS, QueueChains
from localnet.indexer.programs import TreeType

_log = logging.getLogger(__name__)

_WAITING_V1 = {
    TreeType.STATE_V1: "SELECT hash FROM accounts WHERE tree = ? AND queue_index IS NOT NULL",
    TreeType.ADDRESS_V1: "SELECT address FROM address_queue WHERE tree = ?",
}


class Audit:
    """Remembers what was compared: a tree is looked at again when it has changed."""

    def __init__(self, store: Store, network: Network) -> None:
        self._store = store
        self._network = network
        self._seen: dict[bytes, tuple[int, ...]] = {}
        self._chains = QueueChains()

    def run(self) -> list[str]:
        """Compare changed trees and mark those that differ broken; returns what was found.

        Store and chain must be at the same transaction, and the caller keeps both there.
        """
        with self._store.read() as connection:
            trees = [tree for tree in all_trees(connection) if self._seen.get(tree.key) != _counters(tree)]
        found: list[str] = []
        for tree in trees:
            difference = None if tree.broken else self._tree_difference(tree) or self._queue_difference(tree)
            self._seen[tree.key] = _counters(tree)
            if difference is None:
                continue
            found.append(difference)
            _log.critical("the chain and the indexer differ: %s", difference)
            with self._store.write() as connection:
                _mark(connection, tree, difference)
        return found

    def _tree_difference(self, tree: Tree) -> str | None:
        account = read_tree(self._network, tree.key)
        if account is None:
            return f"tree {encode(tree.key)} has no account"
        pairs: dict[str, tuple[object, object]] = {
            "sequence number": (tree.sequence, account.sequence),
            "next index": (tree.next_index, account.next_index),
            "root": (encode(tree.root), encode(account.root)),
        }
        if tree.tree_type is TreeType.STATE_V2:
            pairs["next nullifier"] = (tree.nullifier_next, account.nullifier_next)
        return _first_difference(tree, pairs)

    def _queue_difference(self, tree: Tree) -> str | None:
        """Compare counters and hash chains of a V2 tree's queues, or the elements that wait in a V1 tree's queue."""
        if not tree.batched:
            return self._v1_queue_difference(tree)
        queues: list[tuple[str, int, int, QueueAccount | None]] = []
        inner = read_queue(self._network, tree.key, decode_tree_queue)
        if tree.tree_type is TreeType.STATE_V2:
            outer = read_queue(self._network, tree.queue, decode_output_queue)
            queues = [
                (NULLIFIERS, tree.input_next, tree.nullifier_next, inner),
                (LEAVES, tree.output_next, tree.next_index, outer),
            ]
        else:
            queues = [(ADDRESSES, tree.address_next, tree.next_index - 1, inner)]
        for kind, ours, worked_off, queue in queues:
            if queue is None:
                return f"tree {encode(tree.key)}: no queue of {kind} on chain"
            found = _first_difference(tree, {f"queued {kind}": (ours, queue.next_index)})
            if found is not None:
                return found
            with self._store.read() as connection:
                found = self._chains.difference(connection, tree, kind, worked_off, queue)
            if found is not None:
                return f"tree {encode(tree.key)}: {found}"
        return None

    def _v1_queue_difference(self, tree: Tree) -> str | None:
        queue = read_queue(self._network, tree.queue, decode_v1_queue)
        if queue is None:
            return f"tree {encode(tree.key)}: no queue on chain"
        with self._store.read() as connection:
            ours = {value for (value,) in connection.execute(_WAITING_V1[tree.tree_type], (tree.id,))}
        for value in ours.symmetric_difference(queue.values()):
            place = "here, not on chain" if value in ours else "on chain, not here"
            return f"tree {encode(tree.key)}: {encode(value)} waits in its queue {place}"
        return None


def _first_difference(tree: Tree, pairs: dict[str, tuple[object, object]]) -> str | None:
    for what, (ours, theirs) in pairs.items():
        if ours != theirs:
            return f"tree {encode(tree.key)}: {what} {ours} here, {theirs} on chain"
    return None


def _counters(tree: Tree) -> tuple[int, ...]:
    return (tree.sequence, tree.output_next, tree.input_next, tree.address_next)


def _mark(connection: sqlite3.Connection, tree: Tree, difference: str) -> None:
    tree.broken = difference
    save_tree(connection, tree)
