"""Recorded flows as events, and a store that follows them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from indexer_vectors import Recorded, indexer_vectors

from localnet.base58 import decode, encode
from localnet.indexer.database.state import Applier
from localnet.indexer.database.store import Store, set_meta
from localnet.indexer.database.trees import add_tree, find_tree
from localnet.indexer.decoding.events import (
    BatchEvent,
    BatchKind,
    Event,
    Input,
    NewAddress,
    Output,
    PublicEvent,
    TreeRef,
)
from localnet.indexer.decoding.hashing import CompressedAccount, account_hash
from localnet.indexer.decoding.source import Transaction
from localnet.indexer.following.engine import SLOT
from localnet.indexer.programs import TreeType
from shared.trees.field import ZERO

OWNER = decode("AVBr8cgZKFJaTEx7rYaexAmZxoXsC8ze1ecegQgWhPnb")
LAMPORTS = (1_000_000, 2_000_000)
KINDS = {"append": BatchKind.APPEND, "nullify": BatchKind.NULLIFY, "address-append": BatchKind.ADDRESS_APPEND}


def known_account(leaf: bytes, place: TreeRef, leaf_index: int) -> CompressedAccount | None:
    """Return an account for a recorded hash; most accounts of the flows hold one of two amounts of one owner."""
    candidates = (CompressedAccount(OWNER, lamports, None, None) for lamports in LAMPORTS)
    return next((one for one in candidates if account_hash(one, place.tree, place.tree_type, leaf_index) == leaf), None)


@cache
def flow_events(name: str) -> tuple[tuple[int, Event], ...]:
    """Return the slot and the event of each operation of a flow."""
    return tuple(_events(indexer_vectors(name)))


def _events(flow: Recorded) -> Iterator[tuple[int, Event]]:
    tree, queue = decode(flow["tree"]), decode(flow["queue"])
    place = TreeRef(tree, queue, TreeType.ADDRESS_V2 if flow["height"] == 40 else TreeType.STATE_V2)
    for kind, slot, *rest in flow["ops"]:
        if kind == "output":
            leaf = decode(rest[1])
            output = Output(leaf, rest[0], place, None, known_account(leaf, place, rest[0]))
            yield slot, PublicEvent(ZERO, (), (output,), ())
        elif kind == "input":
            spent = Input(decode(rest[2]), rest[1], place, rest[0], decode(rest[4]))
            yield slot, PublicEvent(decode(rest[3]), (spent,), (), ())
        elif kind == "address":
            yield slot, PublicEvent(ZERO, (), (), (NewAddress(decode(rest[1]), tree, rest[0]),))
        else:
            yield slot, recorded_batch(KINDS[kind], tree, rest[0])


def recorded_batch(kind: BatchKind, tree: bytes, event: Recorded) -> BatchEvent:
    """Return a batch event of a flow."""
    return BatchEvent(
        kind,
        tree,
        event["batchIndex"],
        event["zkpBatchIndex"],
        event["zkpBatchSize"],
        event["oldNextIndex"],
        event["newNextIndex"],
        decode(event["newRoot"]),
        event["rootIndex"],
        event["sequenceNumber"],
        decode(event["outputQueue"]) if event["outputQueue"] else None,
    )


def replay(store: Store, name: str, batches: int | None = None, operations: int | None = None) -> None:
    """Apply a flow: all of it, what comes before its batch event number ``batches``, or its first operations."""
    flow = indexer_vectors(name)
    done = 0
    for number, (slot, event) in enumerate(flow_events(name)):
        if isinstance(event, BatchEvent):
            if done == batches:
                return
            done += 1
        if number == operations:
            return
        apply_event(store, flow, event, slot, number)


def apply_event(store: Store, flow: Recorded, event: Event, slot: int, number: int) -> None:
    """Apply one event as a transaction of its own."""
    with store.write() as connection:
        key, queue = decode(flow["tree"]), decode(flow["queue"])
        if find_tree(connection, key) is None:
            tree_type = TreeType.ADDRESS_V2 if flow["height"] == 40 else TreeType.STATE_V2
            capacity = 120 if flow["height"] == 40 else 20
            add_tree(connection, key, tree_type, queue, flow["height"], capacity)
        signature = number.to_bytes(64, "big")
        Applier(connection, lambda _: None).apply(Transaction(signature, ()), [event], slot, number, 1_724_707_606)
        set_meta(connection, SLOT, slot)


def root_of(store: Store, key: str) -> str:
    """Return the root of a tree, as the store keeps it and as its nodes give it."""
    with store.read() as connection:
        tree = find_tree(connection, decode(key))
        assert tree is not None
        assert tree.broken is None
        assert tree.nodes(connection).root == tree.root
        return encode(tree.root)
