"""Changes of trees that foresters make (forester/docs/reference/indexer.md, "Applying events")."""

import sqlite3

from localnet.base58 import encode
from localnet.indexer.database.trees import StateMismatch, Tree, address_version
from localnet.indexer.decoding.events import (
    BatchEvent,
    BatchKind,
    IndexedEvent,
    IndexedUpdate,
    NullifyEvent,
    TreeEvent,
)
from shared.trees.field import ZERO
from shared.trees.indexed_merkle_tree import LARGEST_VALUE, Element


def apply_tree_event(connection: sqlite3.Connection, tree: Tree, event: TreeEvent) -> None:
    """Apply an event to the rows of its tree and to ``tree``, which the caller saves.

    An event that was applied before changes nothing. Raises StateMismatch if it does not continue the state or leads
    to another root than it says.
    """
    if event.sequence <= tree.sequence:
        return
    _expect("sequence number", tree.sequence + 1, event.sequence)
    if isinstance(event, NullifyEvent):
        _nullify(connection, tree, event)
    elif isinstance(event, IndexedEvent):
        _update_indexed(connection, tree, event)
    else:
        _apply_batch(connection, tree, event)


def _nullify(connection: sqlite3.Connection, tree: Tree, event: NullifyEvent) -> None:
    if any(index >= tree.next_index for index in event.leaf_indices):
        raise StateMismatch(f"a leaf after the first {tree.next_index} is cleared")
    tree.root = tree.nodes(connection).write(dict.fromkeys(event.leaf_indices, ZERO))
    connection.executemany(
        "UPDATE accounts SET queue_index = NULL WHERE tree = ? AND leaf_index = ?",
        [(tree.id, index) for index in event.leaf_indices],
    )
    tree.sequence += len(event.leaf_indices)


def _update_indexed(connection: sqlite3.Connection, tree: Tree, event: IndexedEvent) -> None:
    version = address_version(tree)
    leaves: dict[int, bytes] = {}
    for update in event.updates:
        _check_update(connection, tree, update)
        for element, reported in zip((update.low, update.new), update.leaves, strict=True):
            leaf = element.leaf(version)
            _expect("leaf of an element", leaf, reported)
            leaves[element.index] = leaf
            _store(connection, tree, element)
        connection.execute("DELETE FROM address_queue WHERE tree = ? AND address = ?", (tree.id, update.new.value))
        tree.next_index += 1
    tree.root = tree.nodes(connection).write(leaves)
    tree.sequence += 2 * len(event.updates)


def _check_update(connection: sqlite3.Connection, tree: Tree, update: IndexedUpdate) -> None:
    """Check that the low element is the one below the new value, and that an insertion links the two."""
    new = update.new
    _expect("index of a new element", tree.next_index, new.index)
    low = low_element(connection, tree, new.value)
    linked = Element(low.index, low.value, new.index, new.value)
    following = Element(new.index, new.value, low.next_index, low.next_value)
    _expect("elements of an update", (linked, following), (update.low, new))


def low_element(connection: sqlite3.Connection, tree: Tree, value: bytes) -> Element:
    """Return the greatest element below a value; raise StateMismatch if the value is an element itself.

    The top element of version 1 is below no value: beyond it, too, the answer is the last element before it.
    """
    row = connection.execute(
        "SELECT leaf_index, value, next_index, next_value FROM elements WHERE tree = ? AND value <= ? AND value < ?"
        " ORDER BY value DESC LIMIT 1",
        (tree.id, value, LARGEST_VALUE),
    ).fetchone()
    element = Element(*row)
    if element.value == value:
        raise StateMismatch(f"the address {encode(value)} is in the tree already")
    return element


def _apply_batch(connection: sqlite3.Connection, tree: Tree, event: BatchEvent) -> None:
    size = event.new_next_index - event.old_next_index
    if size <= 0:
        raise StateMismatch(f"a batch of {size} elements")
    if event.kind is BatchKind.APPEND:
        leaves = _appended(connection, tree, event)
        tree.next_index = event.new_next_index
    elif event.kind is BatchKind.NULLIFY:
        leaves = _nullified(connection, tree, event)
        tree.nullifier_next = event.new_next_index
    else:
        leaves = _inserted(connection, tree, event)
        tree.next_index = event.new_next_index
    tree.root = tree.nodes(connection).write(leaves)
    tree.sequence = event.sequence
    _expect("root", event.new_root, tree.root)
    _expect("root index", tree.root_index, event.root_index)


def _appended(connection: sqlite3.Connection, tree: Tree, event: BatchEvent) -> dict[int, bytes]:
    """Return the leaves that an append writes: where a nullifier came into the tree first, it stays."""
    _expect("next index", tree.next_index, event.old_next_index)
    rows = connection.execute(
        "SELECT leaf_index, hash, queue_index FROM accounts WHERE tree = ? AND leaf_index >= ? AND leaf_index < ?",
        (tree.id, event.old_next_index, event.new_next_index),
    ).fetchall()
    _expect("number of queued leaves", event.new_next_index - event.old_next_index, len(rows))
    return {leaf_index: leaf for leaf_index, leaf, queue in rows if queue is None or queue >= tree.nullifier_next}


def _nullified(connection: sqlite3.Connection, tree: Tree, event: BatchEvent) -> dict[int, bytes]:
    _expect("next nullifier", tree.nullifier_next, event.old_next_index)
    rows = connection.execute(
        "SELECT leaf_index, nullifier FROM accounts WHERE tree = ? AND queue_index >= ? AND queue_index < ?",
        (tree.id, event.old_next_index, event.new_next_index),
    ).fetchall()
    _expect("number of spent leaves", event.new_next_index - event.old_next_index, len(rows))
    return dict(rows)


def _inserted(connection: sqlite3.Connection, tree: Tree, event: BatchEvent) -> dict[int, bytes]:
    """Insert queued addresses in their order; the queue counts from zero, places in the tree from one."""
    _expect("next index", tree.next_index, event.old_next_index)
    rows = connection.execute(
        "SELECT queue_index, address FROM address_queue WHERE tree = ? AND queue_index >= ? AND queue_index < ?"
        " ORDER BY queue_index",
        (tree.id, event.old_next_index - 1, event.new_next_index - 1),
    ).fetchall()
    _expect("number of queued addresses", event.new_next_index - event.old_next_index, len(rows))
    version = address_version(tree)
    leaves: dict[int, bytes] = {}
    for queue_index, address in rows:
        low = low_element(connection, tree, address)
        new = Element(queue_index + 1, address, low.next_index, low.next_value)
        for element in (Element(low.index, low.value, new.index, address), new):
            leaves[element.index] = element.leaf(version)
            _store(connection, tree, element)
    connection.execute(
        "DELETE FROM address_queue WHERE tree = ? AND queue_index < ?", (tree.id, event.new_next_index - 1)
    )
    return leaves


def _store(connection: sqlite3.Connection, tree: Tree, element: Element) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO elements VALUES (?, ?, ?, ?, ?)",
        (tree.id, element.value, element.index, element.next_index, element.next_value),
    )


def _expect(what: str, expected: object, got: object) -> None:
    if expected != got:
        raise StateMismatch(f"{what}: {_shown(got)} where {_shown(expected)} is expected")


def _shown(value: object) -> str:
    return encode(value) if isinstance(value, bytes) else str(value)
