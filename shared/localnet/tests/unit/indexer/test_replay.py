"""Recorded flows give the recorded roots, and a flow that was tampered with is noticed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from indexer_replay import apply_event, flow_events, replay, root_of
from indexer_vectors import indexer_vectors

from localnet.base58 import decode
from localnet.indexer.database.store import Store
from localnet.indexer.database.trees import StateMismatch, Tree, find_tree
from localnet.indexer.decoding.events import BatchEvent, Event, Output, PublicEvent

FLOWS = ["replay_state_append_then_nullify", "replay_state_nullify_before_append", "replay_address"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "indexer.sqlite", durable=False)
    yield opened
    opened.close()


def tree_of(store: Store, key: str) -> Tree:
    with store.read() as connection:
        tree = find_tree(connection, decode(key))
    assert tree is not None
    return tree


@pytest.mark.parametrize("name", FLOWS)
def test_replay__recorded_flow__gives_every_recorded_root(store: Store, name: str) -> None:
    flow = indexer_vectors(name)
    batches = 0
    for number, (slot, event) in enumerate(flow_events(name)):
        apply_event(store, flow, event, slot, number)
        if isinstance(event, BatchEvent):
            batches += 1
            assert decode(root_of(store, flow["tree"])) == event.new_root
            assert tree_of(store, flow["tree"]).sequence == event.sequence
    assert batches == len([op for op in flow["ops"] if op[0] not in ("output", "input", "address")])


@pytest.mark.parametrize("name", FLOWS)
def test_replay__batch_event_twice__changes_nothing(store: Store, name: str) -> None:
    flow = indexer_vectors(name)
    for number, (slot, event) in enumerate(flow_events(name)):
        apply_event(store, flow, event, slot, number)
        if isinstance(event, BatchEvent):
            apply_event(store, flow, event, slot, 1000 + number)
    assert tree_of(store, flow["tree"]).broken is None


def test_replay__output_dropped__stops_with_the_expected_index(store: Store) -> None:
    flow = indexer_vectors(FLOWS[0])
    events = list(flow_events(FLOWS[0]))
    apply_event(store, flow, events[0][1], events[0][0], 0)
    with pytest.raises(StateMismatch, match="leaf index 2 where 1 is next"):
        apply_event(store, flow, events[2][1], events[2][0], 2)
    assert tree_of(store, flow["tree"]).output_next == 1


def first_batch(name: str) -> BatchEvent:
    return next(event for _, event in flow_events(name) if isinstance(event, BatchEvent))


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        (FLOWS[0], {"sequence": 3, "root_index": 3}, "sequence number: 3 where 1 is expected"),
        (FLOWS[0], {"new_root": bytes(32)}, "root: 433kYLWvdMNY8SVGamZakDQFNZRu569gR37RxrM4Q4Vk where 1111"),
        (FLOWS[0], {"root_index": 2}, "root index: 2 where 1 is expected"),
        (FLOWS[0], {"old_next_index": 1}, "next index: 1 where 0 is expected"),
        (FLOWS[0], {"new_next_index": 11}, "number of queued leaves: 10 where 11 is expected"),
        (FLOWS[0], {"new_next_index": 0}, "a batch of 0 elements"),
        (FLOWS[1], {"old_next_index": 10, "new_next_index": 20}, "next nullifier: 10 where 0 is expected"),
        (FLOWS[1], {"new_next_index": 21}, "number of spent leaves: 20 where 21 is expected"),
        (FLOWS[2], {"new_root": bytes(32)}, "root: 3KMRfNaeZ31kePVUcMpgyt6hsZP6LeefxSLz8gtViqkH where 1111"),
        (FLOWS[2], {"old_next_index": 2}, "next index: 2 where 1 is expected"),
        (FLOWS[2], {"new_next_index": 32}, "number of queued addresses: 30 where 31 is expected"),
    ],
)
def test_replay__batch_event_changed__breaks_the_tree_and_keeps_its_state(
    store: Store, name: str, change: dict[str, Any], reason: str
) -> None:
    flow = indexer_vectors(name)
    event = first_batch(name)
    replay(store, name, batches=0)
    before = tree_of(store, flow["tree"])
    apply_event(store, flow, replace(event, **change), 400, 1000)
    after = tree_of(store, flow["tree"])
    assert after.broken is not None
    assert reason in after.broken
    assert replace(after, broken=None) == before
    # A broken tree no longer follows the chain.
    apply_event(store, flow, event, 401, 1001)
    assert tree_of(store, flow["tree"]).sequence == 0


def test_replay__account_spent_twice__is_refused(store: Store) -> None:
    flow = indexer_vectors(FLOWS[1])
    spends: list[tuple[int, Event]] = []
    for number, (slot, event) in enumerate(flow_events(FLOWS[1])):
        apply_event(store, flow, event, slot, number)
        if isinstance(event, PublicEvent) and event.inputs:
            spends.append((slot, event))
            break
    with pytest.raises(StateMismatch, match="spent, twice"):
        apply_event(store, flow, spends[0][1], spends[0][0], 1000)


def test_replay__unknown_account_spent__is_refused(store: Store) -> None:
    flow = indexer_vectors(FLOWS[1])
    spend = next(event for _, event in flow_events(FLOWS[1]) if isinstance(event, PublicEvent) and event.inputs)
    with pytest.raises(StateMismatch, match="never created"):
        apply_event(store, flow, spend, 1, 0)


def test_replay__address_queued_twice__is_refused(store: Store) -> None:
    flow = indexer_vectors(FLOWS[2])
    (slot, first), *_ = flow_events(FLOWS[2])
    assert isinstance(first, PublicEvent)
    apply_event(store, flow, first, slot, 0)
    again = replace(first, addresses=(replace(first.addresses[0], queue_index=1),))
    with pytest.raises(StateMismatch, match="queued already"):
        apply_event(store, flow, again, slot, 1)


def test_replay__event_of_unknown_tree__is_refused(store: Store) -> None:
    flow = indexer_vectors(FLOWS[0])
    event = first_batch(FLOWS[0])
    with pytest.raises(StateMismatch, match="not known"):
        apply_event(store, flow, replace(event, tree=bytes(32)), 1, 0)


def test_outputs__of_one_event__keep_their_order(store: Store) -> None:
    flow = indexer_vectors(FLOWS[0])
    outputs: list[Output] = []
    for _, event in flow_events(FLOWS[0]):
        if isinstance(event, PublicEvent):
            outputs += event.outputs
    apply_event(store, flow, PublicEvent(bytes(32), (), tuple(outputs[:10]), ()), 35, 0)
    batch = first_batch(FLOWS[0])
    apply_event(store, flow, batch, 105, 1)
    assert decode(root_of(store, flow["tree"])) == batch.new_root
