from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forester.chain.batched_accounts import Batch, BatchState, QueueBatches
from forester.pipeline_v2.staging.batch_plan import interleave, plan_counts, plan_order, provable_batches
from forester.pipeline_v2.staging.tree_head import upcoming_chains
from shared.requests.circuit_id import CircuitKind

APPEND, UPDATE = CircuitKind.BATCH_APPEND, CircuitKind.BATCH_UPDATE
EMPTY = Batch(0, BatchState.FILL, 0, 0, 3, 800, 50, 10, 0, 0, None, 0, bloom_is_zeroed=False)


def queue(pending: int, first: Batch, second: Batch) -> QueueBatches:
    return QueueBatches(50, 10, 800, 0, pending, 0, (first, second))


@pytest.mark.parametrize(
    ("appends", "nullifies", "most", "planned"),
    [
        (3, 3, 4, (2, 2)),
        (1, 9, 4, (1, 3)),
        (9, 1, 4, (3, 1)),
        (5, 5, 1, (1, 0)),
        (9, 0, 4, (4, 0)),
        (0, 9, 4, (0, 4)),
        (0, 0, 4, (0, 0)),
    ],
)
def test_counts__table_of_cases__is_followed(appends: int, nullifies: int, most: int, planned: tuple[int, int]) -> None:
    counts = plan_counts(appends, nullifies, most)
    assert (counts.appends, counts.nullifies) == planned


@settings(deadline=None)
@given(st.integers(0, 50), st.integers(0, 50), st.integers(1, 30))
def test_counts__any_queues__take_some_of_what_waits_and_no_more_than_allowed(a: int, n: int, most: int) -> None:
    counts = plan_counts(a, n, most)
    assert 0 <= counts.appends <= a
    assert 0 <= counts.nullifies <= n
    assert counts.appends + counts.nullifies <= most
    assert counts.appends + counts.nullifies == min(a + n, most), "nothing that could be done is left"


def test_interleave__greatest_indices__place_nullifications_behind_the_append_that_covers_them() -> None:
    assert interleave(3, [9, 25, 100], 0, 10) == [APPEND, UPDATE, APPEND, APPEND, UPDATE, UPDATE]
    assert interleave(2, [25, 3], 0, 10) == [APPEND, APPEND, UPDATE, UPDATE], "the queue keeps its order"
    assert interleave(0, [5, 6], 0, 10) == [UPDATE, UPDATE]
    assert interleave(2, [], 0, 10) == [APPEND, APPEND]


@settings(deadline=None)
@given(st.integers(0, 6), st.lists(st.integers(0, 100), max_size=6), st.integers(0, 50))
def test_interleave__any_batches__keeps_them_all(appends: int, greatest: list[int], next_index: int) -> None:
    order = interleave(appends, greatest, next_index, 10)
    assert order.count(APPEND) == appends
    assert order.count(UPDATE) == len(greatest)


def order(first: list[CircuitKind], appends: int, greatest: list[int], most: int) -> list[CircuitKind]:
    return plan_order(first, appends, greatest, next_index=0, zkp_batch_size=10, maximum=most)


def test_order__proofs_exist__continues_after_them() -> None:
    assert order([], 3, [9], 4) == [APPEND, UPDATE, APPEND, APPEND]
    assert order([APPEND, APPEND], 3, [9], 4) == [APPEND, APPEND, APPEND, UPDATE]
    assert order([UPDATE], 3, [9], 3) == [UPDATE, APPEND, APPEND]
    assert order([APPEND] * 4, 9, [9], 4) == [APPEND] * 4, "the bound holds"
    assert order([APPEND, UPDATE, UPDATE], 2, [9], 4) == [APPEND, UPDATE, APPEND], "the second is not there any more"


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([APPEND, UPDATE]), max_size=8),
    st.integers(0, 6),
    st.lists(st.integers(0, 100), max_size=6),
    st.integers(1, 20),
)
def test_order__any_proofs_and_queues__leaves_nothing_that_could_be_done(
    first: list[CircuitKind], appends: int, greatest: list[int], most: int
) -> None:
    planned = order(first, appends, greatest, most)
    assert len(planned) == min(appends + len(greatest), most)
    assert planned.count(APPEND) <= appends
    assert planned.count(UPDATE) <= len(greatest)


def test_provable__filling_batch__counts_its_filled_zkp_batches() -> None:
    filling = replace(EMPTY, full_zkp_batches=3, inserted_zkp_batches=1, open_elements=7)
    assert provable_batches(queue(0, filling, EMPTY)) == 2
    assert provable_batches(queue(1, EMPTY, filling)) == 2


def test_provable__other_batch__counts_once_the_pending_one_is_full() -> None:
    full = replace(EMPTY, state=BatchState.FULL, full_zkp_batches=5, inserted_zkp_batches=2)
    filling = replace(EMPTY, full_zkp_batches=4)
    assert provable_batches(queue(0, full, filling)) == 7
    assert provable_batches(queue(1, full, filling)) == 4, "the one to be inserted next is not full"
    done = replace(EMPTY, state=BatchState.INSERTED, full_zkp_batches=5, inserted_zkp_batches=5)
    assert provable_batches(queue(0, full, done)) == 3


def test_upcoming_chains__both_batches__are_given_in_the_order_of_insertion() -> None:
    full = replace(EMPTY, state=BatchState.FULL, full_zkp_batches=5, inserted_zkp_batches=3)
    filling = replace(EMPTY, full_zkp_batches=2)
    stores = [[bytes([number]) for number in range(5)], [bytes([number]) for number in range(10, 12)]]
    assert upcoming_chains(queue(0, full, filling), stores) == (b"\x03", b"\x04", b"\x0a", b"\x0b")
    assert upcoming_chains(queue(1, filling, full), list(reversed(stores)))[:2] == (b"\x03", b"\x04")
    assert upcoming_chains(queue(1, full, filling), stores) == (b"\x0a", b"\x0b")
