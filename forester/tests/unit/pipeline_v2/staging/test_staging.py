"""Staging against dense trees computed from their leaves, and against an indexer that lies."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as changed
from v2_models import HEIGHT, SLOTS, ZKP, AddressModel, StateModel, number, sibling_nodes

from forester.indexer.types import AddressQueue, Hash32, Node, StateQueue
from forester.pipeline_v2.failures import (
    ElementUnusable,
    HashChainDiffers,
    QueueMisaligned,
    SnapshotContradicts,
    StagingRefused,
)
from forester.pipeline_v2.staging.staged_batches import StagedBatch, Staging, stage_addresses, stage_state
from forester.pipeline_v2.staging.tree_head import TreeHead
from shared.requests.circuit_id import CircuitKind
from shared.requests.witness_inputs import chain, public_inputs
from shared.trees.field import SCALAR_MODULUS, ZERO, format_number
from shared.trees.indexed_merkle_tree import LARGEST_VALUE


def all_batches(staging: Staging | None) -> list[StagedBatch]:
    batches = []
    while staging is not None and (batch := staging.next()) is not None:
        batches.append(batch)
    return batches


actions = st.lists(
    st.one_of(
        st.just("queue"),
        st.tuples(st.just("spend"), st.integers(0, 99)),
        st.tuples(st.just("forest"), st.integers(1, 4)),
    ),
    max_size=40,
)


@settings(deadline=None, max_examples=40)
@given(actions)
def test_state__any_order_of_queueing_spending_and_foresting__agrees_with_the_dense_tree(steps: list[Any]) -> None:
    model, unspent = StateModel(), [*range(0)]
    for step in [*steps, ("forest", 4)]:
        if step == "queue" and len(model.queued) < SLOTS:
            unspent.append(len(model.queued))
            model.queued.append(number(1000 + len(model.queued)))
        elif step[0] == "spend" and unspent:
            # Spent accounts may still wait in the output queue.
            index = unspent.pop(step[1] % len(unspent))
            model.spent.append((model.queued[index], index, number(5000 + index)))
        elif step[0] == "forest":
            for batch in all_batches(stage_state(model.snapshot(), model.head(), step[1])):
                assert (batch.old_root, batch.sequence) == (model.root(), model.sequence)
                start = model.appended if batch.kind is CircuitKind.BATCH_APPEND else model.nullified
                assert batch.start_index == start
                model.apply(batch.kind)
                assert batch.new_root == model.root()
                assert batch.request.public_input_hash == format_number(public_inputs(batch.request)[0])


def filled_model() -> StateModel:
    model = StateModel()
    model.queued = [number(1000 + index) for index in range(8)]
    model.apply(CircuitKind.BATCH_APPEND)
    model.spent = [(model.queued[index], index, number(77)) for index in (0, 3, 1, 5)]
    return model


def test_state__batches_in_the_tree_already__are_skipped() -> None:
    model = filled_model()
    old = model.snapshot()
    model.apply(CircuitKind.BATCH_APPEND)
    late = changed(old, nodes=sibling_nodes(model.leaves, [2, 3, 4, 5, 6, 7, 0, 1]), initial_root=Hash32(model.root()))
    assert late.output_queue is not None
    late = changed(
        late,
        input_queue=None,
        output_queue=changed(
            late.output_queue, leaves=tuple(Hash32(model.leaves[index]) for index in late.output_queue.leaf_indices)
        ),
    )
    batches = all_batches(stage_state(late, model.head(), 9))
    assert [batch.start_index for batch in batches] == [4, 6]


def with_output(queue: StateQueue, **columns: Any) -> StateQueue:
    assert queue.output_queue is not None
    return changed(queue, output_queue=changed(queue.output_queue, **columns))


def with_input(queue: StateQueue, **columns: Any) -> StateQueue:
    assert queue.input_queue is not None
    return changed(queue, input_queue=changed(queue.input_queue, **columns))


HUGE = Hash32(SCALAR_MODULUS.to_bytes(32, "big"))
LIES: list[tuple[str, Callable[[StateQueue, TreeHead], tuple[StateQueue, TreeHead]], type[StagingRefused], str]] = [
    ("root", lambda q, h: (changed(q, initial_root=number(5)), h), SnapshotContradicts, "the snapshot is of root"),
    (
        "node",
        lambda q, h: (changed(q, nodes=(*q.nodes[:-1], Node(index=q.nodes[-1].index, hash=number(3)))), h),
        SnapshotContradicts,
        "contradict its root",
    ),
    (
        "huge node",
        lambda q, h: (changed(q, nodes=tuple(Node(index=n.index, hash=HUGE) for n in q.nodes)), h),
        ElementUnusable,
        "not a field element",
    ),
    (
        "two leaves",
        lambda q, h: (with_input(q, leaves=(number(9),) * 4), h),
        SnapshotContradicts,
        "two values for leaf",
    ),
    (
        "element",
        lambda q, h: (with_output(q, account_hashes=(number(1),) * 6), h),
        HashChainDiffers,
        "append batch 0 .* the account",
    ),
    (
        "order",
        lambda q, h: (
            with_output(q, account_hashes=tuple(reversed(q.output_queue.account_hashes)) if q.output_queue else ()),
            h,
        ),
        HashChainDiffers,
        "append batch 0",
    ),
    ("huge element", lambda q, h: (with_output(q, account_hashes=(HUGE,) * 6), h), ElementUnusable, "append batch 0"),
    ("tx hash", lambda q, h: (with_input(q, tx_hashes=(HUGE,) * 4), h), ElementUnusable, "nullify batch 0"),
    (
        "input chain",
        lambda q, h: (q, replace(h, input_chains=(number(1),))),
        HashChainDiffers,
        "nullify batch 0 .* the account",
    ),
    ("gap", lambda q, h: (q, replace(h, next_index=3)), QueueMisaligned, "append batch 1 begins at 4"),
    ("stale", lambda q, h: (q, replace(h, next_index=1)), QueueMisaligned, "append elements begin at 2, the tree .* 1"),
    (
        "stale input",
        lambda q, h: (with_input(q, first_queue_index=9), h),
        QueueMisaligned,
        "nullify elements begin at 9",
    ),
    (
        "leaf index",
        lambda q, h: (
            with_input(
                q,
                leaf_indices=(0, 3, 1, 99),
            ),
            replace(h, input_chains=()),
        ),
        ElementUnusable,
        "outside a tree",
    ),
]


@pytest.mark.parametrize(("name", "lie", "kind", "words"), LIES, ids=[lie[0] for lie in LIES])
def test_state__indexer_that_lies__is_refused_before_a_proof_is_asked_for(
    name: str,
    lie: Callable[[StateQueue, TreeHead], tuple[StateQueue, TreeHead]],
    kind: type[StagingRefused],
    words: str,
) -> None:
    model = filled_model()
    queue, head = lie(model.snapshot(), model.head())
    with pytest.raises(kind, match=words) as raised:
        all_batches(stage_state(queue, head, 5))
    assert raised.value.retryable


def test_state__node_omitted__is_refused_unless_it_is_empty() -> None:
    model = filled_model()
    model.apply(CircuitKind.BATCH_APPEND)
    model.spent = [(model.queued[index], index, number(77)) for index in (0, 2)]
    queue = changed(model.snapshot(), output_queue=None)
    with pytest.raises(SnapshotContradicts):
        stage_state(changed(queue, nodes=()), model.head(), 5)
    held = tuple(node for node in queue.nodes if node.hash != ZERO and node.index < 3 << 56)
    assert len(held) < len(queue.nodes)
    assert all_batches(stage_state(changed(queue, nodes=held), model.head(), 5))


def staged_addresses(model: AddressModel, waiting: list[Hash32], maximum: int = 5) -> Staging | None:
    return stage_addresses(model.snapshot(waiting), model.head(waiting), maximum)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 200), unique=True, min_size=1, max_size=SLOTS - 1), st.data())
def test_addresses__any_values_in_batches_of_several_snapshots__agree_with_the_sorted_list(
    values: list[int], data: st.DataObject
) -> None:
    model, waiting = AddressModel(), [number(value) for value in values]
    while len(waiting) >= ZKP:
        batches = all_batches(staged_addresses(model, waiting, data.draw(st.integers(1, 4))))
        assert batches
        for batch in batches:
            assert (batch.old_root, batch.start_index) == (model.head().root, len(model.values))
            model.values += waiting[:ZKP]
            del waiting[:ZKP]
            assert batch.new_root == model.head().root
            assert batch.request.public_input_hash == format_number(public_inputs(batch.request)[0])


def grown() -> tuple[AddressModel, list[Hash32]]:
    model = AddressModel()
    model.values += [number(value) for value in (50, 20, 80, 10)]
    return model, [number(value) for value in (60, 70, 65, 15)]


def test_addresses__chains_of_the_account__must_be_those_of_the_values() -> None:
    model, waiting = grown()
    head = model.head(waiting)
    assert head.input_chains == (chain(waiting[:2]), chain(waiting[2:]))
    assert len(all_batches(staged_addresses(model, waiting))) == 2
    other = replace(head, input_chains=(head.input_chains[0], number(1)))
    with pytest.raises(HashChainDiffers, match=r"address batch 1 .* the account"):
        stage_addresses(model.snapshot(waiting), other, 5)


def test_batches__more_than_the_account_has__are_not_staged() -> None:
    model, waiting = grown()
    assert len(all_batches(stage_addresses(model.snapshot(waiting), model.head(waiting[:3]), 5))) == 1
    state = filled_model()
    head = replace(state.head(), append_chains=state.head().append_chains[:1], input_chains=())
    (batch,) = all_batches(stage_state(state.snapshot(), head, 5))
    assert (batch.kind, batch.start_index) == (CircuitKind.BATCH_APPEND, 2)


def test_addresses__fewer_than_a_batch__give_nothing() -> None:
    model, waiting = grown()
    assert stage_addresses(model.snapshot(waiting[:1]), model.head(), 5) is None


ADDRESS_LIES: list[tuple[str, Callable[[AddressQueue], AddressQueue], type[StagingRefused], str]] = [
    ("subtrees", lambda q: changed(q, subtrees=(number(1),) * HEIGHT), SnapshotContradicts, "subtrees .* root"),
    ("few subtrees", lambda q: changed(q, subtrees=q.subtrees[1:]), SnapshotContradicts, "subtrees .* unusable"),
    ("node", lambda q: changed(q, nodes=q.nodes[2:]), SnapshotContradicts, "contradict its root"),
    (
        "low value",
        lambda q: changed(q, low_element_values=(number(1),) * 4),
        SnapshotContradicts,
        "contradict its root",
    ),
    ("low next", lambda q: changed(q, low_element_next_values=(number(90),) * 4), SnapshotContradicts, "its root"),
    ("low missing", lambda q: changed(q, addresses=(number(9), *q.addresses[1:])), SnapshotContradicts, "lacks what"),
    ("present", lambda q: changed(q, addresses=(number(50), *q.addresses[1:])), ElementUnusable, "is in the tree"),
    ("twice", lambda q: changed(q, addresses=(q.addresses[1], *q.addresses[1:])), ElementUnusable, "is in the tree"),
    ("range", lambda q: changed(q, addresses=(Hash32(LARGEST_VALUE), *q.addresses[1:])), ElementUnusable, "between"),
    ("gap", lambda q: changed(q, queue_indices=(5, 6, 7, 8)), QueueMisaligned, "begin at 6, the tree continues at 5"),
]


@pytest.mark.parametrize(("name", "lie", "kind", "words"), ADDRESS_LIES, ids=[lie[0] for lie in ADDRESS_LIES])
def test_addresses__indexer_that_lies__is_refused_before_a_proof_is_asked_for(
    name: str, lie: Callable[[AddressQueue], AddressQueue], kind: type[StagingRefused], words: str
) -> None:
    model, waiting = grown()
    queue = lie(model.snapshot(waiting))
    with pytest.raises(kind, match=words):
        all_batches(stage_addresses(queue, model.head(queue.addresses), 5))
