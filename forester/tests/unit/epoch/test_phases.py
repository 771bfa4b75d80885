from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forester.epoch.phases import (
    BeforeGenesis,
    Phase,
    ProtocolTimes,
    SlotRange,
    confirmation_seconds,
    v1_batch_seconds,
)

WORKED_EXAMPLE = ProtocolTimes(200, 10, 100, 1000, 100)
times = st.builds(
    ProtocolTimes,
    genesis_slot=st.integers(0, 10**6),
    slot_length=st.integers(1, 50),
    registration_phase_length=st.integers(0, 500),
    active_phase_length=st.integers(1, 1000),
    report_work_phase_length=st.integers(0, 500),
)


def test_phases__worked_example__have_the_published_slots() -> None:
    phases = WORKED_EXAMPLE.phases(1)
    assert phases.registration == SlotRange(1200, 1299)
    assert phases.active == SlotRange(1300, 2299)
    assert phases.report_work == SlotRange(2300, 2399)
    assert phases.post_first == 2400
    assert phases.registrable == SlotRange(1200, 2199)


@pytest.mark.parametrize(
    ("slot", "phase"),
    [
        (0, Phase.WAITING),
        (1199, Phase.WAITING),
        (1200, Phase.REGISTRATION),
        (1299, Phase.REGISTRATION),
        (1300, Phase.ACTIVE),
        (2299, Phase.ACTIVE),
        (2300, Phase.REPORT_WORK),
        (2399, Phase.REPORT_WORK),
        (2400, Phase.POST),
    ],
)
def test_phase__first_and_last_slot_of_each__is_reported(slot: int, phase: Phase) -> None:
    assert WORKED_EXAMPLE.phases(1).phase_at(slot) is phase


def test_epochs__before_the_first__do_not_exist() -> None:
    with pytest.raises(BeforeGenesis, match="genesis slot 200"):
        WORKED_EXAMPLE.registering_epoch(199)
    with pytest.raises(BeforeGenesis, match="first active slot 300"):
        WORKED_EXAMPLE.active_epoch(299)
    assert WORKED_EXAMPLE.registering_epoch(200) == WORKED_EXAMPLE.active_epoch(300) == 0


@settings(deadline=None)
@given(times, st.integers(0, 10**7))
def test_epochs__any_slot__is_in_the_phases_of_the_epoch_returned(config: ProtocolTimes, beyond: int) -> None:
    slot = config.genesis_slot + config.registration_phase_length + beyond
    active = config.phases(config.active_epoch(slot))
    assert active.phase_at(slot) is Phase.ACTIVE or slot in active.registration
    assert slot in active.active
    assert slot in config.phases(config.registering_epoch(slot)).registrable
    # Active phases tile time.
    assert config.phases(active.epoch + 1).active.first == active.active.last + 1


@settings(deadline=None)
@given(times, st.integers(0, 20))
def test_light_slots__all_of_an_epoch__tile_its_active_phase(config: ProtocolTimes, epoch: int) -> None:
    phases = config.phases(epoch)
    covered = [phases.light_slot_range(number) for number in range(phases.light_slots)]
    assert covered[0].first == phases.active.first
    assert covered[-1].last == phases.active.last
    assert all(one.last + 1 == other.first for one, other in pairwise(covered))
    for number, slots in enumerate(covered):
        assert phases.light_slot_at(slots.first) == phases.light_slot_at(slots.last) == number


@settings(deadline=None)
@given(times, st.integers(0, 10**5))
def test_live_epochs__any_slot__are_those_opened_whose_report_has_not_ended(config: ProtocolTimes, slot: int) -> None:
    live = config.live_epochs(slot)
    edges = {epoch for bound in (live.start, live.stop) for epoch in range(max(0, bound - 2), bound + 2)}
    for epoch in edges:
        phases = config.phases(epoch)
        assert (epoch in live) == (phases.registration.first <= slot < phases.post_first)


def test_live_epochs__worked_example__hold_report_active_and_registration() -> None:
    assert list(WORKED_EXAMPLE.live_epochs(2250)) == [1, 2]
    assert list(WORKED_EXAMPLE.live_epochs(2399)) == [1, 2]
    assert list(WORKED_EXAMPLE.live_epochs(2400)) == [2]
    assert list(WORKED_EXAMPLE.live_epochs(3200)) == [2, 3]
    assert list(WORKED_EXAMPLE.live_epochs(199)) == []
    assert list(WORKED_EXAMPLE.live_epochs(200)) == [0]


def test_light_slot__outside_the_active_phase__is_refused() -> None:
    phases = WORKED_EXAMPLE.phases(1)
    for slot in (1299, 2300):
        with pytest.raises(ValueError, match="not in the active phase 1300 to 2299"):
            phases.light_slot_at(slot)
    with pytest.raises(ValueError, match="light slots 0 to 99"):
        phases.light_slot_range(100)


def test_remaining__around_the_ends_of_a_range__counts_the_slots_after() -> None:
    slots = SlotRange(10, 19)
    assert [slots.remaining(slot) for slot in (0, 9, 10, 18, 19, 25)] == [10, 10, 9, 1, 0, 0]


def test_budgets__published_remaining_slots__give_the_published_seconds() -> None:
    assert [v1_batch_seconds(slots) for slots in (10, 9, 8)] == [2.0, 1.6, None]
    assert [confirmation_seconds(slots) for slots in (4, 3)] == [1.6, None]
