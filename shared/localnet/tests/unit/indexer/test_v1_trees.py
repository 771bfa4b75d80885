"""Trees of the first version against recorded transactions of the real programs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from recorded import recorded

from localnet.base58 import decode
from localnet.indexer.database.state import Applier
from localnet.indexer.database.store import Store
from localnet.indexer.database.trees import StateMismatch, Tree, add_default_tree, find_tree
from localnet.indexer.decoding.events import (
    NEXT,
    Event,
    IndexedEvent,
    NullifyEvent,
    Output,
    PublicEvent,
    TreeRef,
    decode_tree_event,
)
from localnet.indexer.decoding.source import Transaction
from localnet.indexer.programs import DEFAULT_ADDRESS_TREE_V1, TreeType
from shared.trees.field import ZERO

STATE_TREE = decode("smt1NamzXdq4AMqS2fS2F1i5KTYPZRhoHgWx38d8WsT")
QUEUE = decode("nfq1NvQDJ2GEgnS8zt9prAe8rjjpAW1zFkrvZoBR148")
PLACE = TreeRef(STATE_TREE, STATE_TREE, TreeType.STATE_V1)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "indexer.sqlite", durable=False)
    with opened.write() as connection:
        add_default_tree(connection, STATE_TREE, TreeType.STATE_V1, QUEUE)
        add_default_tree(connection, DEFAULT_ADDRESS_TREE_V1, TreeType.ADDRESS_V1, bytes(32))
    yield opened
    opened.close()


def apply(store: Store, number: int, *events: Event) -> None:
    with store.write() as connection:
        transaction = Transaction(number.to_bytes(64, "big"), ())
        Applier(connection, lambda _: None).apply(transaction, events, number, 0, 0)


def tree_of(store: Store, key: bytes) -> Tree:
    with store.read() as connection:
        tree = find_tree(connection, key)
    assert tree is not None
    return tree


def recorded_leaves() -> PublicEvent:
    leaves = [bytes.fromhex(leaf) for leaf in recorded("v1_txs")["nullify"]["leaves"]]
    return PublicEvent(ZERO, (), tuple(Output(leaf, i, PLACE, i + 1, None) for i, leaf in enumerate(leaves)), ())


def test_state_tree__leaves_and_a_nullify__give_the_recorded_roots(store: Store) -> None:
    facts = recorded("v1_txs")["nullify"]
    apply(store, 1, recorded_leaves())
    assert tree_of(store, STATE_TREE).root.hex() == facts["old_root"]
    event = decode_tree_event(bytes.fromhex(facts["event"]))
    assert isinstance(event, NullifyEvent)
    apply(store, 2, event)
    tree = tree_of(store, STATE_TREE)
    assert (tree.root.hex(), tree.sequence, tree.next_index) == (facts["new_root"], event.sequence, 3)
    apply(store, 3, event)
    assert tree_of(store, STATE_TREE) == tree


def test_state_tree__all_leaves_cleared__stores_no_node(store: Store) -> None:
    apply(store, 1, recorded_leaves())
    apply(store, 2, NullifyEvent(STATE_TREE, (0, 1, 2), 4))
    with store.read() as connection:
        (nodes,) = connection.execute("SELECT count(*) FROM nodes WHERE tree = 1").fetchone()
    assert nodes == 0


@pytest.mark.parametrize(("leaf_index", "sequence"), [(1, 1), (0, 2), (0, 0)])
def test_state_tree__leaf_out_of_order__is_refused(store: Store, leaf_index: int, sequence: int) -> None:
    leaf = recorded_leaves().outputs[0].hash
    event = PublicEvent(ZERO, (), (Output(leaf, leaf_index, PLACE, sequence, None),), ())
    with pytest.raises(StateMismatch, match="where"):
        apply(store, 1, event)


def test_state_tree__leaf_behind_the_end_cleared__breaks_the_tree(store: Store) -> None:
    apply(store, 1, recorded_leaves())
    apply(store, 2, NullifyEvent(STATE_TREE, (3,), 4))
    assert "after the first 3" in (tree_of(store, STATE_TREE).broken or "")


def test_address_tree__recorded_update__gives_the_recorded_root(store: Store) -> None:
    facts = recorded("v1_txs")["update_address_merkle_tree"]
    assert tree_of(store, DEFAULT_ADDRESS_TREE_V1).root.hex() == facts["old_root"]
    event = decode_tree_event(bytes.fromhex(facts["event"]))
    assert isinstance(event, IndexedEvent)
    apply(store, 1, event)
    tree = tree_of(store, DEFAULT_ADDRESS_TREE_V1)
    assert (tree.root.hex(), tree.sequence, tree.next_index) == (facts["new_root"], 5, 3)


def test_address_tree__update_with_another_low_element__breaks_the_tree(store: Store) -> None:
    payload = bytearray.fromhex(recorded("v1_txs")["update_address_merkle_tree"]["event"])
    payload[37] ^= 1  # the value of the low element
    apply(store, 1, decode_tree_event(bytes(payload)))
    tree = tree_of(store, DEFAULT_ADDRESS_TREE_V1)
    assert "elements of an update" in (tree.broken or "")
    assert tree.sequence == 3


def test_migration__of_a_v1_leaf__queues_its_account_in_the_v2_tree(store: Store) -> None:
    apply(store, 1, recorded_leaves())
    v2, queue = bytes([1] * 32), bytes([2] * 32)
    with store.write() as connection:
        add_default_tree(connection, v2, TreeType.STATE_V2, queue)
    moved = Output(recorded_leaves().outputs[1].hash, NEXT, TreeRef(queue, queue, TreeType.STATE_V2), None, None)
    apply(store, 2, NullifyEvent(STATE_TREE, (1,), 4), PublicEvent(ZERO, (), (moved,), ()))
    assert tree_of(store, v2).output_next == 1
    with store.read() as connection:
        row = connection.execute(
            "SELECT trees.key, leaf_index FROM accounts JOIN trees ON trees.id = tree WHERE hash = ?", (moved.hash,)
        ).fetchone()
    assert row == (v2, 0)
