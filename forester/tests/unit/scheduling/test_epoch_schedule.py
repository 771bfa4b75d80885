import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_vectors import shared_vectors
from solders.pubkey import Pubkey

from forester.chain import bounds
from forester.epoch.phases import ProtocolTimes, SlotRange
from forester.scheduling.tree_schedule import (
    COMPRESSION_KEY,
    Share,
    TreeSchedule,
    chosen_part,
)

VECTORS = shared_vectors("onchain/eligibility")
TREE = bytes(Pubkey.from_string("bmt1LryLZUMmF7ZtqESaw7wifBXLfXHQYoE4GAmrahU"))
PHASES = ProtocolTimes(0, 10, 100, 200, 100).phases(3)


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: f"weight {case['total_weight']}")
def test_chosen_part__vectors_of_the_program__are_met(case: dict[str, object]) -> None:
    key, epoch, weight = bytes(Pubkey.from_string(str(case["pubkey"]))), case["epoch"], case["total_weight"]
    expected = case["light_slots"]
    assert isinstance(epoch, int)
    assert isinstance(weight, int)
    assert isinstance(expected, list)
    assert [chosen_part(key, epoch, light_slot, weight) for light_slot in range(len(expected))] == expected


@pytest.mark.parametrize(
    ("key", "epoch", "weight", "parts"),
    [
        (TREE, 0, 3, [0, 1, 0, 2, 1, 2, 2, 0, 2, 2, 2, 0]),
        (TREE, 7, 3, [1, 1, 0, 2, 2, 0, 1, 0, 0, 0, 0, 0]),
        (COMPRESSION_KEY, 5, 2, [1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1]),
    ],
)
def test_chosen_part__published_vectors__are_met(key: bytes, epoch: int, weight: int, parts: list[int]) -> None:
    assert [chosen_part(key, epoch, light_slot, weight) for light_slot in range(12)] == parts


@settings(deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.binary(min_size=32, max_size=32))
def test_schedules__shares_of_all_foresters__divide_the_light_slots(weights: list[int], key: bytes) -> None:
    total = sum(weights)
    shares = [Share(sum(weights[:place]), weight, total) for place, weight in enumerate(weights)]
    owned = [TreeSchedule.make(PHASES, key, share, 0).owned for share in shares]
    assert sorted(light_slot for slots in owned for light_slot in slots) == list(range(PHASES.light_slots))


def test_schedule__made_late__begins_with_the_current_light_slot() -> None:
    whole = TreeSchedule.make(PHASES, TREE, Share(0, 1, 1), PHASES.active.first)
    assert tuple(whole.owned) == tuple(range(20))
    assert whole.windows == (PHASES.active,)
    late = TreeSchedule.make(PHASES, TREE, Share(0, 1, 1), PHASES.active.first + 15)
    assert tuple(late.owned) == tuple(range(1, 20))
    assert tuple(TreeSchedule.make(PHASES, TREE, Share(0, 1, 1), PHASES.active.last).owned) == (19,)
    assert tuple(TreeSchedule.make(PHASES, TREE, Share(0, 1, 1), PHASES.active.last + 1).owned) == ()


def test_windows__runs_of_light_slots__end_where_the_next_belongs_to_another() -> None:
    first = PHASES.active.first
    schedule = TreeSchedule(PHASES, (0, 1, 4, 6, 7))
    assert schedule.windows == (
        SlotRange(first, first + 19),
        SlotRange(first + 40, first + 49),
        SlotRange(first + 60, first + 79),
    )
    assert schedule.next_window(first + 19) == SlotRange(first, first + 19)
    assert schedule.next_window(first + 20) == SlotRange(first + 40, first + 49)
    assert schedule.next_window(first + 80) is None


def test_schedules__of_all_trees_with_the_most_light_slots__fit_into_memory() -> None:
    phases = ProtocolTimes(0, 60, 100, 60 * bounds.MAXIMUM_LIGHT_SLOTS, 100).phases(3)
    tracemalloc.start()
    try:
        schedules = [TreeSchedule.make(phases, bytes([number]) * 32, Share(0, 1, 2), 0) for number in range(3)]
        assert all(schedule.next_window(phases.active.first + 5) is not None for schedule in schedules)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held / len(schedules) * bounds.MAXIMUM_TREES < 150 * 2**20
