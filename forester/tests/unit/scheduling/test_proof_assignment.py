"""Choice of the forester that begins a proof when several share a tree: one at a time, and always one in the end."""

from __future__ import annotations

import pytest
from assignment_simulation import Result, Setting, simulate
from hypothesis import example, given, settings
from hypothesis import strategies as st

from forester.epoch.phases import CONFIRMATION_SLOTS, ProtocolTimes, SlotRange
from forester.scheduling.proof_assignment import GRACE_SLOTS, ProofAssignment, may_begin, needed_slots, term_slots
from forester.scheduling.scheduling_terms import MINIMUM_TERM_SLOTS
from forester.scheduling.tree_schedule import Share, TreeSchedule

SEEDS = range(3)
DUPLICATE_SHARE = 0.02
LONGEST_THAT_FITS = MINIMUM_TERM_SLOTS - GRACE_SLOTS - CONFIRMATION_SLOTS - 1


@settings(deadline=None, max_examples=20)
@example([(1, LONGEST_THAT_FITS)] * 2, bytes(32), 25, 2 * MINIMUM_TERM_SLOTS)
@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(1, LONGEST_THAT_FITS)), min_size=1, max_size=5),
    st.binary(min_size=32, max_size=32),
    st.sampled_from([5, 10, 25, 60, 100]),
    st.integers(2 * MINIMUM_TERM_SLOTS, 2000),
)
def test_may_begin__provers_of_any_speed__one_forester_at_a_time_and_in_every_term_somebody_could(
    foresters: list[tuple[int, int]], key: bytes, slot_length: int, active: int
) -> None:
    phases = ProtocolTimes(0, slot_length, 10, active, 10).phases(0)
    total, index, allowed = sum(weight for weight, _ in foresters), 0, dict[int, int]()
    for number, (weight, need) in enumerate(foresters):
        schedule = TreeSchedule.make(phases, key, Share(index, weight, total), phases.active.first)
        handover, index = ProofAssignment(key, bytes([number])), index + weight
        for slot in range(phases.active.first + GRACE_SLOTS, phases.active.last + 1, 5):
            if handover.may_begin(slot, need, phases.active, schedule):
                assert slot not in allowed, "two may begin at once"
                allowed[slot] = number
                assert schedule.next_window(slot + need + CONFIRMATION_SLOTS) is not None, "it can be sent"
    assert phases.active.first + GRACE_SLOTS in allowed


def test_may_begin__proof_longer_than_a_term__terms_grow_and_beyond_an_epoch_it_is_begun_in_its_first_half() -> None:
    assert term_slots(LONGEST_THAT_FITS, 10_000) == MINIMUM_TERM_SLOTS
    assert term_slots(LONGEST_THAT_FITS + 1, 10_000) == 2 * MINIMUM_TERM_SLOTS
    assert term_slots(9_000, 200) == MINIMUM_TERM_SLOTS
    held = [SlotRange(100, 299)]
    assert not may_begin(150, 180, held, 1000)
    assert may_begin(150, 100, held, 1000)
    assert not may_begin(100 + GRACE_SLOTS - 1, 10, held, 1000), "what was sent last may show up"
    assert may_begin(199, 1000, held, 200)
    assert not may_begin(200, 1000, held, 200)


def test_needed_slots__usual_time__has_a_margin() -> None:
    assert needed_slots(8.0, 0.0) == 25
    assert needed_slots(8.0, 0.8) == 27


def test_assignment__nobody_else_moves_a_tree__stays_until_somebody_does() -> None:
    phases = ProtocolTimes(0, 10, 10, 100_000, 10).phases(0)
    mine = TreeSchedule(phases, (45,))
    handover = ProofAssignment(bytes(32), b"one")
    first, sequence = phases.active.first, 5

    def ours(slot: int) -> bool:
        return handover.may_begin(slot, 20, phases.active, mine)

    def see(slots: range, *, landed: int = 0, provable: int = 3) -> int:
        for slot in slots:
            handover.observe(slot, sequence, provable, landed=landed, need_slots=20, schedule=mine)
        return slots[-1]

    last = see(range(first, first + 4 * MINIMUM_TERM_SLOTS, 25))
    assert not ours(last), "four terms, of which one is ours"
    sequence = 6
    last = see(range(last, last + 2 * MINIMUM_TERM_SLOTS, 25), landed=6)
    last = see(range(last, last + 40 * MINIMUM_TERM_SLOTS, 25), landed=6, provable=0)
    assert not ours(last), "there was nothing to do"
    last = see(range(last, last + 12 * MINIMUM_TERM_SLOTS, 25), landed=6)
    assert ours(last), "that it was us who moved it once says nothing about others"
    sequence = 7
    last = see(range(last, last + 25), landed=7)
    assert ours(last)
    sequence = 8
    last = see(range(last, last + 25), landed=7)
    assert not ours(last), "somebody else is there"


def together(setting: Setting) -> Result:
    """Return all seeds in one."""
    results = [simulate(setting, seed) for seed in SEEDS]
    return Result(
        sum(item.made for item in results),
        sum(item.again for item in results),
        max(item.left for item in results),
        {number: sum(item.landed_by.get(number, 0) for item in results) for number in range(len(setting.weights))},
    )


@pytest.mark.parametrize(
    "setting",
    [
        pytest.param(Setting((1, 2, 3), (0.5, 0.5, 0.5)), id="proofs much shorter than a light slot"),
        pytest.param(Setting((1, 2, 3), (6.0, 8.0, 10.0)), id="proofs of two light slots"),
        pytest.param(Setting((1, 2, 3), (22.0, 22.0, 22.0), batch_every=80.0), id="proofs of five light slots"),
        pytest.param(Setting((1, 2, 3), (2.0, 10.0, 25.0), batch_every=80.0), id="provers of different speeds"),
        pytest.param(
            Setting((1, 2, 3), (15.0, 15.0, 15.0), active=200, epochs=20, batch_every=80.0), id="short epochs"
        ),
        pytest.param(
            Setting((1, 1, 1), (5.0, 20.0, 40.0), slot_length=60, active=4000, batch_every=80.0),
            id="light slots of 24 seconds, provers of different speeds",
        ),
        pytest.param(
            Setting((1,) * 10, (10.0,) * 10, slot_length=60, active=2000, batch_every=80.0), id="ten foresters"
        ),
    ],
)
def test_foresters__all_alive__make_hardly_a_proof_twice_and_leave_nothing(setting: Setting) -> None:
    result = together(setting)
    assert result.again <= DUPLICATE_SHARE * result.made, result
    assert result.left == 0, result
    assert sum(count > 0 for count in result.landed_by.values()) > len(setting.weights) // 2


@pytest.mark.parametrize(
    "setting",
    [
        pytest.param(Setting((1, 2, 3), (10.0,) * 3, active=6000, epochs=1, dead={2: 300}), id="the heaviest"),
        pytest.param(Setting((1, 1, 1), (10.0,) * 3, active=6000, epochs=1, dead={0: 300}), id="one of equals"),
        pytest.param(
            Setting((1, 2, 3), (10.0,) * 3, active=9000, epochs=1, dead={1: 300, 2: 300}), id="all but the lightest"
        ),
        pytest.param(
            Setting((1, 1, 1), (15.0,) * 3, slot_length=60, active=9000, epochs=1, dead={0: 300}),
            id="one of equals, light slots of 24 seconds",
        ),
    ],
)
def test_foresters__some_die__the_others_leave_nothing_and_make_hardly_a_proof_twice(setting: Setting) -> None:
    setting.batch_every = 120.0
    result = together(setting)
    lost = len(setting.dead) * len(SEEDS)
    assert result.again - lost <= DUPLICATE_SHARE * result.made, result
    assert result.left == 0, result
