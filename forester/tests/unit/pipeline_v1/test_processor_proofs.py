"""Proofs that the V1 tree processor uses, asks for again, or prepares before its window."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest
from v1_world import CHANGES, World, leaf

from forester.chain.concurrent_accounts import QueueCell
from forester.errors import ForesterError
from forester.pipeline_v1.failures import ProofsUnusable
from forester.pipeline_v1.indexer_proofs import Proof
from forester.pipeline_v1.proof_freshness import SPARE_CHANGES


async def test_proofs__old_but_in_the_history__are_sent_with_more_units() -> None:
    world = World().queue(1, 5)
    old = {place: world.proof(QueueCell(place, value)) for place, value in world.cells.items()}
    for number in range(300):
        world.change(40, leaf(1000 + number))
    world.proof_filter = lambda proof: old[proof.cell.index]
    done = await world.processor().work(world.window())
    assert done.elements == 2
    limits = [call.unit_limit for call in world.sent]
    assert all(limit is not None and limit > 130_000 for limit in limits)


def _spoil_sibling(proof: Proof) -> Proof:
    return replace(proof, siblings=(leaf(9), *proof.siblings[1:]))


def _not_a_field_element(proof: Proof) -> Proof:
    return replace(proof, siblings=(b"\xff" * 32, *proof.siblings[1:]))


def _foreign_root(proof: Proof) -> Proof:
    return replace(proof, root=leaf(7))


def _ahead(proof: Proof) -> Proof:
    return replace(proof, sequence=proof.sequence + 1)


def _too_old(proof: Proof) -> Proof:
    return replace(proof, sequence=proof.sequence - CHANGES + SPARE_CHANGES - 1)


def _elsewhere(proof: Proof) -> Proof:
    return replace(proof, leaf_index=proof.leaf_index + 2**26)


@pytest.mark.parametrize("spoil", [_spoil_sibling, _not_a_field_element, _foreign_root, _ahead, _too_old, _elsewhere])
async def test_proofs__that_do_not_fit_the_chain__cost_nothing_and_are_asked_for_again(
    spoil: Callable[[Proof], Proof],
) -> None:
    world = World().queue(1, 2)
    world.proof_filter = spoil
    processor = world.processor()
    done = await processor.work(world.window())
    assert (done.elements, done.more, world.sent) == (0, True, [])
    assert isinstance(done.failure, ProofsUnusable)
    assert done.failure.retryable
    world.proof_filter = lambda proof: proof
    assert (await processor.work(world.window())).elements == 2


async def test_element__that_the_indexer_does_not_know__does_not_hold_up_others() -> None:
    world = World().queue(1, 2, 3)
    world.unknown = {leaf(2)}
    processor = world.processor()
    done = await processor.work(world.window())
    assert (done.elements, done.more, done.failure) == (2, True, None)
    failures: list[ForesterError | None] = [(await processor.work(world.window())).failure for _ in range(2)]
    assert all(isinstance(failure, ProofsUnusable) for failure in failures)
    assert (await processor.work(world.window())).failure is None, "it is left alone for a while"


async def test_element__that_a_lagging_indexer_does_not_know_yet__is_asked_for_again_soon_then_later() -> None:
    world = World().queue(1)
    world.unknown = {leaf(1)}
    processor = world.processor(done_s=180)
    asked = []
    for _ in range(1200):
        world.clock += 0.1
        before = len(world.asked)
        await processor.work(world.window())
        asked += [world.clock] if len(world.asked) > before else []
    pauses = [later - earlier for earlier, later in itertools.pairwise(asked)]
    assert pauses == pytest.approx([0.1, 0.1, 2, 4, 8, 16, 32], abs=0.15)
    world.unknown = set()
    world.clock += 64
    assert (await processor.work(world.window())).elements == 1


async def test_prepared_proofs__are_used_in_the_window_and_nothing_is_sent_before() -> None:
    world = World().queue(1, 2)
    processor = world.processor()
    await processor.prepare(world.window())
    await processor.prepare(world.window())
    assert (world.asked, world.sent) == ([2], [])
    world.queue(3)
    assert (await processor.work(world.window())).elements == 3
    assert world.asked == [2, 1]
    assert world.queue_reads == 2
    await processor.prepare(world.window())
    await processor.close(1.0)


async def test_prepared_proofs__of_some_of_many_elements__belong_to_those_that_go_first() -> None:
    world = World().queue(*range(1, 41))
    processor = world.processor(group=5, groups_at_once=1)
    await processor.prepare(world.window())
    assert (await processor.work(world.window())).elements == 5
    assert world.asked == [5]
