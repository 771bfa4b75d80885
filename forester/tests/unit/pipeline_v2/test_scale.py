"""Staging at sizes of mainnet: what a round costs depends on its elements, not on the size of the tree."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable

import msgspec
import pytest
from sparse_worlds import World, address_world, state_world

from forester.indexer.types import QueueElements, decode_base58
from forester.pipeline_v2.staging.snapshots import staging_of
from shared.requests.circuit_id import CircuitKind

SMALL, LARGE = 2_000, 10**8


def staged(world: World) -> tuple[list[CircuitKind], int]:
    """Return the staged batches, and the peak of memory."""
    result = json.dumps(json.loads(world.answer)["result"])
    answer = msgspec.json.decode(result, type=QueueElements, dec_hook=decode_base58)
    snapshot = answer.state_queue or answer.address_queue
    assert snapshot is not None
    tracemalloc.start()
    staging = staging_of(snapshot, world.head, 4)
    assert staging is not None
    batches = []
    while (batch := staging.next()) is not None:
        batches.append(batch)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    roots = [world.head.root, *(batch.new_root for batch in batches)]
    assert [batch.old_root for batch in batches] == roots[:-1]
    assert len(set(roots)) == len(roots)
    assert {batch.elements for batch in batches} == {world.head.zkp_batch_size}
    return [batch.kind for batch in batches], peak


@pytest.mark.parametrize(
    ("make", "kinds"),
    [
        (
            lambda leaf_index: state_world(1, leaf_index, 500, 1, 1),
            [CircuitKind.BATCH_APPEND, CircuitKind.BATCH_UPDATE],
        ),
        (
            lambda leaf_index: address_world(1, leaf_index, 250, 1),
            [CircuitKind.BATCH_ADDRESS_APPEND],
        ),
    ],
    ids=["state", "address"],
)
def test_staging__a_hundred_million_leaves__takes_memory_by_elements_not_by_leaves(
    make: Callable[[int], World], kinds: list[CircuitKind]
) -> None:
    made, small = staged(make(SMALL))
    assert made == kinds
    made, large = staged(make(LARGE))
    assert made == kinds
    # In a larger tree the ways up meet later and have more nodes of their own, until each has all to itself.
    assert large < 2 * small
    assert large < 24 * 2**20
