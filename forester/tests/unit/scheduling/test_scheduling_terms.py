"""Terms of trees: everybody computes the same ones, and every one is held by exactly one forester."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from forester.epoch.phases import EpochPhases, ProtocolTimes, SlotRange
from forester.scheduling.scheduling_terms import MINIMUM_TERM_SLOTS, terms_held_by
from forester.scheduling.tree_schedule import Share, TreeSchedule


def phases_of(slot_length: int, active: int) -> EpochPhases:
    return ProtocolTimes(0, slot_length, 10, active, 10).phases(2)


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=5),
    st.binary(min_size=32, max_size=32),
    st.integers(1, 300),
    st.integers(1, 5000),
    st.integers(1, 1000),
)
def test_terms__of_all_foresters__divide_the_epoch_and_end_with_a_light_slot_of_their_holder(
    weights: list[int], key: bytes, slot_length: int, active: int, least: int
) -> None:
    phases = phases_of(slot_length, active)
    total = sum(weights)
    held: list[int] = []
    for place, weight in enumerate(weights):
        share = Share(sum(weights[:place]), weight, total)
        schedule = TreeSchedule.make(phases, key, share, phases.active.first)
        for run in terms_held_by(phases, schedule.owned, least):
            held += range(run.first, run.last + 1)
            assert any(run.last in window for window in schedule.windows)
            assert run.length >= min(least, slot_length * (active // slot_length))
    whole = max(1, active // slot_length)
    assert sorted(held) == list(range(phases.active.first, phases.light_slot_range(whole - 1).last + 1))


@given(st.integers(1, 100), st.integers(100, 5000), st.integers(1, 500), st.sets(st.integers(0, 5000)))
def test_terms__twice_as_long__end_where_shorter_ones_of_the_same_holder_end(
    slot_length: int, active: int, least: int, owned: set[int]
) -> None:
    phases = phases_of(slot_length, active)
    least = -(-least // slot_length) * slot_length
    ends = {run.last for run in terms_held_by(phases, owned, 2 * least)}
    shorter = terms_held_by(phases, owned, least)
    assert all(any(end in run for run in shorter) for end in ends)


def test_terms__light_slots_of_24_seconds__are_grouped_by_four_and_the_rest_joins_the_last() -> None:
    phases = phases_of(60, 60 * 10)
    first = phases.active.first
    assert MINIMUM_TERM_SLOTS == 225
    assert terms_held_by(phases, {3}) == (SlotRange(first, first + 239),)
    assert terms_held_by(phases, {9}) == (SlotRange(first + 240, first + 599),)
    assert terms_held_by(phases, {3, 9}) == (phases.active,)
    assert terms_held_by(phases, {0, 1, 2, 7}) == ()


def test_terms__epoch_shorter_than_a_term__is_one() -> None:
    phases = phases_of(10, 205)
    assert terms_held_by(phases, {19}) == (SlotRange(phases.active.first, phases.active.first + 199),)
    assert terms_held_by(phases, {0, 20}) == (), "the last light slot is too short to send in"
