"""Options of `forester start` about V1 trees, from the command line to what indexer and chain are asked."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from start_options import chosen
from v1_world import World, leaf

from forester.chain.tree_metadata import TreeKind
from forester.epoch.phases import SlotRange
from forester.pipeline_v1.processor import V1Options, V1Processor
from forester.scheduling.eligibility_window import EligibilityWindow
from forester.transactions.confirm import Fate, Outcome


def processor(world: World, *words: str, kind: TreeKind = TreeKind.STATE_V1) -> V1Processor:
    return world.processor(**asdict(V1Options.of(chosen(*words), kind)))


@pytest.mark.parametrize(("size", "asked"), [("4", [4, 4, 2]), ("50", [10])])
async def test_indexer_batch_size__of_many_elements__is_how_many_a_call_is_about(size: str, asked: list[int]) -> None:
    world = World().queue(*range(1, 11))
    assert (await processor(world, "--indexer-batch-size", size).work(world.window())).elements == 10
    assert world.asked == asked


@pytest.mark.parametrize("calls", [1, 3])
async def test_indexer_max_concurrent_batches__of_many_elements__is_how_many_calls_there_are_at_once(
    calls: int,
) -> None:
    world = World().queue(*range(1, 11))
    words = ("--indexer-batch-size", "2", "--indexer-max-concurrent-batches", str(calls))
    done = await processor(world, *words).work(world.window())
    assert (world.most_proving, done.elements, done.more) == (calls, 2 * calls, True)


@pytest.mark.parametrize("most", [1, 4])
async def test_transaction_max_concurrent_batches__of_a_v1_tree__is_how_many_elements_are_sent_at_once(
    most: int,
) -> None:
    world = World().queue(*range(1, 11))
    await processor(world, "--transaction-max-concurrent-batches", str(most)).work(world.window())
    assert (world.most_at_once, len(world.sent)) == (most, 10)


@pytest.mark.parametrize(
    ("option", "outcome"),
    [
        ("--tx-cache-ttl-seconds", Outcome(Fate.DEADLINE_PASSED)),
        ("--ops-cache-ttl-seconds", Outcome(Fate.CONFIRMED, 1)),
    ],
)
@pytest.mark.parametrize("ttl", [30, 300])
async def test_cache_ttls__of_elements_still_in_the_queue__are_how_long_they_are_left_alone(
    option: str, outcome: Outcome, ttl: int
) -> None:
    world = World().queue(1)
    world.fates[leaf(1)] = [outcome]
    tested = processor(world, option, str(ttl))
    for clock, proved in ((0, 1), (ttl - 1, 1), (ttl + 1, 2)):
        world.clock = clock
        world.queue(1)  # a node that lags shows what has left the queue, too
        # In another epoch the transaction of an element is another one, too.
        await tested.work(EligibilityWindow(8 if clock else 7, SlotRange(50, 1000), lambda: world.slot))
        assert len(world.asked) == proved, clock


@pytest.mark.parametrize("first", [4, 8])
@pytest.mark.parametrize(
    ("option", "kind", "other"),
    [
        ("--state-queue-start-index", TreeKind.STATE_V1, TreeKind.ADDRESS_V1),
        ("--address-queue-start-index", TreeKind.ADDRESS_V1, TreeKind.STATE_V1),
    ],
)
async def test_start_indices__of_queues_of_one_kind__leave_the_first_cells_alone(
    option: str, kind: TreeKind, other: TreeKind, first: int
) -> None:
    for asked, expected in ((kind, range(first, 11)), (other, range(1, 11))):
        world = World().queue(*range(1, 11))
        await processor(world, option, str(first), kind=asked).work(world.window())
        assert sorted(world.values_sent) == [leaf(number) for number in expected]


@pytest.mark.parametrize("limit", [60_000, 1_000_000])
async def test_cu_limit__of_a_v1_element__bounds_what_its_transaction_may_use(limit: int) -> None:
    world = World().queue(1)
    await processor(world, "--cu-limit", str(limit)).work(world.window())
    assert [call.unit_limit for call in world.sent] == [min(limit, 100_000 + 100 * 101)]
