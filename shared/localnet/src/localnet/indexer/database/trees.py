"""The table of trees: kind and state of each (forester/docs/reference/indexer.md, "Applying events")."""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from localnet.indexer.accounts.tree_accounts import TreeAccount
from localnet.indexer.database.sparse_tree import SparseTree
from localnet.indexer.programs import HEIGHTS, ROOT_CAPACITIES, TreeType
from shared.trees.field import ZERO
from shared.trees.indexed_merkle_tree import LARGEST_VALUE, Element
from shared.trees.merkle_tree import zero_hash

_V1_ADDRESS_SEQUENCE = 3
"""Sequence number of a V1 address tree that holds its two initial elements only."""

AccountReader = Callable[[bytes], TreeAccount | None]
"""Function that returns the tree account of a key on chain, None if there is none or accounts cannot be read."""


class StateMismatch(ValueError):
    """An event does not continue the state: a transaction was missed, or the chain and the indexer differ."""


@dataclass(slots=True)
class Tree:
    """One tree. ``output_next``, ``input_next`` and ``address_next`` count what ever came into its queues.

    ``next_index`` is the next free leaf, ``nullifier_next`` the next place of the nullifier queue to come into the
    tree. ``broken`` says why the tree stopped following the chain.
    """

    id: int
    key: bytes
    tree_type: TreeType
    queue: bytes
    height: int
    root_capacity: int
    sequence: int
    next_index: int
    root: bytes
    nullifier_next: int
    output_next: int
    input_next: int
    address_next: int
    broken: str | None

    @property
    def batched(self) -> bool:
        """True if the tree is a V2 tree."""
        return self.tree_type in (TreeType.STATE_V2, TreeType.ADDRESS_V2)

    @property
    def holds_addresses(self) -> bool:
        """True if the tree holds addresses."""
        return self.tree_type in (TreeType.ADDRESS_V1, TreeType.ADDRESS_V2)

    @property
    def root_index(self) -> int:
        """Place of the current root in the history on chain."""
        return self.sequence % self.root_capacity

    def nodes(self, connection: sqlite3.Connection) -> SparseTree:
        """Return the nodes of the tree."""
        return SparseTree(connection, self.id, self.height)


def address_version(tree: Tree) -> int:
    """Return the version of the leaves of an address tree."""
    return 1 if tree.tree_type is TreeType.ADDRESS_V1 else 2


_COLUMNS = (
    "id, key, type, queue, height, root_capacity, sequence, next_index, root, nullifier_next, output_next, input_next, "
    "address_next, broken"
)


def find_tree(connection: sqlite3.Connection, key: bytes) -> Tree | None:
    """Return the tree of a key."""
    return _tree(connection.execute(f"SELECT {_COLUMNS} FROM trees WHERE key = ?", (key,)).fetchone())  # noqa: S608


def find_tree_of_queue(connection: sqlite3.Connection, queue: bytes) -> Tree | None:
    """Return the tree of a queue."""
    row = connection.execute(f"SELECT {_COLUMNS} FROM trees WHERE queue = ?", (queue,)).fetchone()  # noqa: S608
    return _tree(row)


def all_trees(connection: sqlite3.Connection) -> list[Tree]:
    """Return all trees in the order of their creation."""
    rows = connection.execute(f"SELECT {_COLUMNS} FROM trees ORDER BY id").fetchall()  # noqa: S608
    return [tree for tree in map(_tree, rows) if tree is not None]


def add_tree(
    connection: sqlite3.Connection, key: bytes, tree_type: TreeType, queue: bytes, height: int, root_capacity: int
) -> Tree:
    """Enter a tree as it is at first: empty, or with the initial elements of its version."""
    elements = _initial_elements(tree_type)
    sequence = _V1_ADDRESS_SEQUENCE if tree_type is TreeType.ADDRESS_V1 else 0
    cursor = connection.execute(
        "INSERT INTO trees (key, type, queue, height, root_capacity, sequence, next_index, root)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (key, int(tree_type), queue, height, root_capacity, sequence, len(elements), zero_hash(height)),
    )
    number = cursor.lastrowid
    if number is None:
        raise sqlite3.IntegrityError("the new tree has no row")
    if elements:
        version = 1 if tree_type is TreeType.ADDRESS_V1 else 2
        root = SparseTree(connection, number, height).write({one.index: one.leaf(version) for one in elements})
        connection.execute("UPDATE trees SET root = ? WHERE id = ?", (root, number))
        # The top element of version 1 can be below nothing and is no one's predecessor.
        connection.executemany(
            "INSERT INTO elements VALUES (?, ?, ?, ?, ?)",
            [(number, one.value, one.index, one.next_index, one.next_value) for one in elements],
        )
    tree = find_tree(connection, key)
    if tree is None:
        raise sqlite3.IntegrityError("the new tree cannot be read")
    return tree


def add_tree_of_account(connection: sqlite3.Connection, account: TreeAccount) -> Tree:
    """Insert the tree of an account in its initial state."""
    return add_tree(connection, account.key, account.tree_type, account.queue, account.height, account.root_capacity)


def add_default_tree(connection: sqlite3.Connection, key: bytes, tree_type: TreeType, queue: bytes) -> Tree:
    """Insert a tree of which an event has only these values."""
    return add_tree(connection, key, tree_type, queue, HEIGHTS[tree_type], ROOT_CAPACITIES[tree_type])


def save_tree(connection: sqlite3.Connection, tree: Tree) -> None:
    """Write the columns of a tree that change."""
    connection.execute(
        "UPDATE trees SET sequence = ?, next_index = ?, root = ?, nullifier_next = ?, output_next = ?, input_next = ?,"
        " address_next = ?, broken = ? WHERE id = ?",
        (
            tree.sequence,
            tree.next_index,
            tree.root,
            tree.nullifier_next,
            tree.output_next,
            tree.input_next,
            tree.address_next,
            tree.broken,
            tree.id,
        ),
    )


def _initial_elements(tree_type: TreeType) -> list[Element]:
    if tree_type is TreeType.ADDRESS_V1:
        return [Element(0, ZERO, 1, LARGEST_VALUE), Element(1, LARGEST_VALUE, 0, ZERO)]
    if tree_type is TreeType.ADDRESS_V2:
        return [Element(0, ZERO, 0, LARGEST_VALUE)]
    return []


def _tree(row: tuple[Any, ...] | None) -> Tree | None:
    if row is None:
        return None
    number, key, tree_type, *rest = row
    return Tree(number, key, TreeType(tree_type), *rest)
