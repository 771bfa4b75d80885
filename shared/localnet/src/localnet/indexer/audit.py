"""Compares trees with their accounts on chain (source: indexer.md section 6.6)."""

import logging
import sqlite3

from localnet.base58 import encode
from localnet.chain.blocks import ChainReader
from localnet.indexer.feed import read_output_queue_next, read_tree
from localnet.indexer.programs import TreeType
from localnet.indexer.store import Store
from localnet.indexer.trees import Tree, all_trees, save_tree

_log = logging.getLogger(__name__)


class Audit:
    """Remembers what was compared: a tree is looked at again when it has changed."""

    def __init__(self, store: Store, reader: ChainReader) -> None:
        self._store = store
        self._reader = reader
        self._seen: dict[bytes, tuple[int, ...]] = {}

    def run(self) -> list[str]:
        """Compare changed trees and mark those that differ broken; returns what was found.

        Store and chain must stand at the same transaction, and the caller keeps both there.
        """
        with self._store.read() as connection:
            trees = [tree for tree in all_trees(connection) if self._seen.get(tree.key) != _counters(tree)]
        found: list[str] = []
        for tree in trees:
            difference = None if tree.broken else self._difference(tree)
            self._seen[tree.key] = _counters(tree)
            if difference is None:
                continue
            found.append(difference)
            _log.critical("the chain and the indexer differ: %s", difference)
            with self._store.write() as connection:
                _mark(connection, tree, difference)
        return found

    def _difference(self, tree: Tree) -> str | None:
        account = read_tree(self._reader, tree.key)
        if account is None:
            return f"tree {encode(tree.key)} has no account"
        pairs: dict[str, tuple[object, object]] = {
            "sequence number": (tree.sequence, account.sequence),
            "next index": (tree.next_index, account.next_index),
            "root": (encode(tree.root), encode(account.root)),
        }
        if tree.tree_type is TreeType.STATE_V2:
            pairs["next nullifier"] = (tree.nullifier_next, account.nullifier_next)
            pairs["queued nullifiers"] = (tree.input_next, account.queue_next)
            pairs["queued leaves"] = (tree.output_next, read_output_queue_next(self._reader, tree.queue))
        if tree.tree_type is TreeType.ADDRESS_V2:
            pairs["queued addresses"] = (tree.address_next, account.queue_next)
        for what, (ours, theirs) in pairs.items():
            if ours != theirs:
                return f"tree {encode(tree.key)}: {what} {ours} here, {theirs} on chain"
        return None


def _counters(tree: Tree) -> tuple[int, ...]:
    return (tree.sequence, tree.output_next, tree.input_next, tree.address_next)


def _mark(connection: sqlite3.Connection, tree: Tree, difference: str) -> None:
    tree.broken = difference
    save_tree(connection, tree)
