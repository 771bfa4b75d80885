"""The estimate of the slot: scripted time, scripted readings."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from forester.daemon import clock as clock_module
from forester.daemon.clock import (
    FASTEST_SLOT_S,
    IMPLAUSIBLE_SLOTS,
    RETREAT_READINGS,
    STUCK_S,
    SlotClock,
)


@dataclass
class Time:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def clock_at(time: Time, slot: int, silence_s: float = 10.0) -> SlotClock:
    clock = SlotClock(silence_s=silence_s, now=time)
    assert clock.read(slot)
    return clock


async def test_slot__between_readings__continues_at_the_measured_pace() -> None:
    time = Time()
    clock = clock_at(time, 500)
    time.now += 4
    assert clock.slot() == 510, "by design a slot takes 0.4 s"
    for _ in range(12):
        time.now += 10
        clock.read(500 + int((time.now - 1000) / 0.5))
    assert clock.slots_per_second == pytest.approx(2.0, rel=0.02)
    before = clock.slot()
    time.now += 5
    assert clock.slot() == before + 10


async def test_slot__readings_fall_behind_the_estimate__holds_instead_of_running_backwards() -> None:
    time = Time()
    clock = clock_at(time, 500)
    time.now += 10
    assert clock.slot() == 525
    clock.read(510)
    reported = [clock.slot()]
    for _ in range(60):
        time.now += 0.5
        reported.append(clock.slot())
    assert reported == sorted(reported)
    assert reported[0] == 525
    clock.read(505)
    assert clock.slot() == reported[-1], "a node that lags changes nothing"


async def test_slot__node_is_silent__is_ahead_by_a_bounded_number_of_slots_and_right_again_at_its_next_word() -> None:
    time = Time()
    clock = clock_at(time, 500)
    time.now += 3600
    ahead = clock.slot() - 500
    assert ahead == 50, "twice the usual silence"
    assert clock.reading_age_s == 3600
    clock.read(9500)
    assert clock.slot() == 9500


@pytest.mark.parametrize("interval_s", [0.4, 2.0, 10.0])
async def test_slot__node_catches_up_at_once__the_pace_stays(interval_s: float) -> None:
    time = Time()
    clock = clock_at(time, 500, silence_s=interval_s)
    slot = 500
    for number in range(60):
        time.now += interval_s
        slot += int(interval_s / 0.4) + (100 if number == 20 else 0)
        clock.read(slot)
        assert clock.slots_per_second == pytest.approx(2.5, rel=0.01)
    time.now += interval_s
    assert clock.slot() <= slot + int(interval_s * 2.5) + 1


async def test_slot__chain_quicker_than_any_by_design__is_followed_after_some_readings() -> None:
    time = Time()
    clock = clock_at(time, 500)
    for reading in range(1, 8):
        time.now += 10
        clock.read(500 + 100 * reading)
    assert clock.slots_per_second == 1 / FASTEST_SLOT_S


async def test_slot__chain_stalls__does_not_continue() -> None:
    time = Time()
    clock = clock_at(time, 500, silence_s=1.0)
    for _ in range(30):
        time.now += 1
        clock.read(500)
    assert clock.slots_per_second == 0
    assert clock.slot() - 500 <= 3, "what passed before that was measured"


async def test_read__node_catches_up__never_makes_the_estimate_race() -> None:
    time = Time()
    clock = clock_at(time, 500)
    for step in range(1, 5):
        time.now += 1
        clock.read(500 + 200 * step)
    assert clock.slots_per_second == pytest.approx(1 / FASTEST_SLOT_S)


@pytest.mark.parametrize(("second", "reported"), [(10**12 + 1, 10**12 + 1), (505, 505)])
async def test_read__slot_far_ahead__is_believed_when_said_twice(second: int, reported: int) -> None:
    time = Time()
    clock = clock_at(time, 500)
    assert clock.read(500 + IMPLAUSIBLE_SLOTS)
    clock = clock_at(time, 500)
    assert not clock.read(10**12)
    assert clock.slot() == 500
    time.now += 0.1
    assert clock.read(second)
    assert clock.slot() == reported


@pytest.fixture
def errors(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, int]]]:
    reported: list[tuple[str, dict[str, int]]] = []
    monkeypatch.setattr(clock_module._log, "error", lambda event, **facts: reported.append((event, facts)))
    return reported


@pytest.mark.parametrize(("interval_s", "readings"), [(10.0, 7), (20.0, RETREAT_READINGS), (1.0, 61), (0.4, 151)])
async def test_read__first_answer_was_wrong__is_reported_when_several_agree_and_nobody_objects(
    interval_s: float, readings: int, errors: list[tuple[str, dict[str, int]]]
) -> None:
    time = Time()
    clock = clock_at(time, 10_000_500)
    slot = 500
    for reading in range(1, readings + 1):
        assert not clock.went_back.is_set()
        time.now += interval_s
        slot += int(interval_s / 0.4)
        assert clock.read(slot) is (reading >= RETREAT_READINGS)
        assert clock.behind == 10_000_500 - slot
    assert clock.went_back.is_set()
    time.now += interval_s
    clock.read(slot + 1)
    assert errors == [("slot_regressed", {"slot": slot, "behind": 10_000_500 - slot, "readings": readings})]
    assert clock.slot() >= 10_000_500, "it never runs backwards"


@pytest.mark.parametrize("per_second", [3.5, 4, 10, 50])
async def test_read__node_catches_up__is_waited_for(per_second: float) -> None:
    time = Time()
    clock = clock_at(time, 10**6)
    slot = 10**6 - 5000.0
    while slot < 10**6 + 2.5 * (time.now - 1000):
        pause_s = 10 if clock.read(int(slot)) else 0.5  # as the poller
        time.now += pause_s
        slot += pause_s * per_second
    assert not clock.went_back.is_set()
    clock.read(int(slot))
    assert clock.slot() == pytest.approx(slot, abs=50)


@pytest.mark.parametrize("ahead", [IMPLAUSIBLE_SLOTS, 10**8])
async def test_read__subscription_is_far_ahead__changes_nothing(ahead: int) -> None:
    time = Time()
    clock = clock_at(time, 10**6)
    for number in range(1, 1000):
        time.now += 0.4
        assert not clock.read(10**6 + number + ahead, witness=False)
        if number % 25 == 0:
            clock.read(10**6 + number)
            assert clock.slot() == 10**6 + number
    assert not clock.went_back.is_set()


async def test_read__subscription_creeps_ahead__stays_near_the_witnesses() -> None:
    time = Time()
    clock = clock_at(time, 10**6)
    for number in range(1, 1000):
        time.now += 0.4
        for ahead in range(0, 4 * IMPLAUSIBLE_SLOTS, 100):
            clock.read(10**6 + number + ahead, witness=False)
        if number % 25 == 0:
            clock.read(10**6 + number)
    assert clock.slot() < 10**6 + 1000 + IMPLAUSIBLE_SLOTS
    assert clock.behind < IMPLAUSIBLE_SLOTS
    assert not clock.went_back.is_set()


async def test_read__subscription_confirms_a_jump__needs_another_witness() -> None:
    time = Time()
    clock = clock_at(time, 500)
    assert not clock.read(10**7)
    assert not clock.read(10**7 + 1, witness=False)
    assert not clock.read(10**9, witness=False)
    assert clock.read(10**7 + 2)
    assert clock.slot() == 10**7 + 2
    assert clock.read(10**7 + 3, witness=False)
    assert clock.slot() == 10**7 + 3


async def test_read__subscription_is_first__waits_for_a_witness() -> None:
    clock = SlotClock(silence_s=10, now=Time())
    assert not clock.read(10**8, witness=False)
    assert not clock.is_set
    clock.read(500)
    clock.read(501, witness=False)
    assert clock.slot() == 501


async def test_read__subscription_of_a_cluster_with_lower_slots__is_rejected() -> None:
    time = Time()
    clock = clock_at(time, 10**6)
    for number in range(1, 100):
        time.now += 0.4
        assert not clock.read(500_000 + number, witness=False)
        assert clock.read(10**6 + number)
    assert clock.behind == 0
    assert clock.slot() == 10**6 + 99
    assert not clock.went_back.is_set()


async def test_read__node_lags_behind_the_subscription__the_subscription_is_followed() -> None:
    time = Time()
    clock = clock_at(time, 10**6)
    for number in range(1, 1000):
        time.now += 0.4
        assert clock.read(10**6 + number, witness=False)
        if number % 25 == 0:
            assert clock.read(10**6 + number - 700)
        assert clock.slot() == 10**6 + number
    assert not clock.went_back.is_set()


async def test_read__subscription_contradicts_witnesses_far_behind__they_count() -> None:
    time = Time()
    clock = clock_at(time, 10**7)
    for number in range(1, 10):
        time.now += 10
        clock.read(500 + 25 * number)
        clock.read(10**7 + 25 * number, witness=False)
    assert clock.went_back.is_set(), "all that is read and sent goes to the node of the witnesses"


def one_in_five(other: int) -> list[int]:
    return [other if number % RETREAT_READINGS == 0 else 25 * number for number in range(1, 50)]


@pytest.mark.parametrize(
    ("seconds", "readings"),
    [
        pytest.param(10, [500] * 50, id="stands"),
        pytest.param(10, range(500, 200_000, 5000), id="leap"),
        pytest.param(10, [5000, 5025, 4900, 4925] * 10, id="run backwards"),
        pytest.param(10, one_in_five(10**7 - IMPLAUSIBLE_SLOTS), id="one of five only lags"),
        pytest.param(10, one_in_five(10**12), id="one of five is far ahead"),
        pytest.param(0.4, range(500, 645), id="for less than a minute"),
    ],
)
async def test_read__far_behind_without_agreement__changes_nothing(seconds: float, readings: list[int]) -> None:
    time = Time()
    clock = clock_at(time, 10**7)
    for slot in readings:
        time.now += seconds
        clock.read(slot)
    assert clock.slot() == pytest.approx(10**7 + 50, abs=1), "at most what a silence adds"
    assert not clock.went_back.is_set()


@pytest.mark.parametrize("behind", [1, 60, IMPLAUSIBLE_SLOTS])
async def test_read__node_of_the_fallback_lags__is_waited_for(
    behind: int, errors: list[tuple[str, dict[str, int]]]
) -> None:
    time = Time()
    clock = clock_at(time, 10**6)
    reported, slot = [], 10**6 - behind
    for _ in range(60):
        clock.read(slot)
        reported.append(clock.slot())
        time.now += 10
        slot += 25
    assert reported == sorted(reported)
    assert reported[0] == 10**6
    assert clock.slot() == slot
    assert errors == []


async def test_read__single_ones_far_behind_others__change_nothing() -> None:
    time = Time()
    clock = clock_at(time, 10**6)
    for reading in range(1, 200):
        time.now += 10
        slot = 10**6 + 25 * reading
        clock.read(slot if reading % RETREAT_READINGS == 0 else slot - 5000)
        assert clock.slot() == slot or clock.slot() >= 10**6 + 25 * (reading - reading % RETREAT_READINGS)
    assert not clock.went_back.is_set()


async def test_read__nodes_that_take_turns__are_one_chain() -> None:
    time = Time()
    clock = clock_at(time, 10**7)
    for slot in (500, 490, 550, 540, 600, 590, 650):
        time.now += 10
        assert not clock.went_back.is_set()
        clock.read(slot)
    assert clock.went_back.is_set()


async def test_behind__node_falls_silent_or_continues__is_over() -> None:
    time = Time()
    clock = clock_at(time, 500)
    clock.read(480)
    assert clock.behind == 20
    time.now += STUCK_S + 1
    assert clock.behind == 0, "the node says nothing now"
    clock.read(490)
    assert clock.behind == 10
    clock.read(501)
    assert clock.behind == 0


async def test_reach__slots_pass_or_are_read__wakes_exactly_who_waited_for_them() -> None:
    clock = SlotClock(silence_s=10)
    early = asyncio.create_task(clock.reach(101))
    late = asyncio.create_task(clock.reach(1_000))
    given_up = asyncio.create_task(clock.reach(900))
    await asyncio.sleep(0)
    given_up.cancel()
    clock.read(100)
    await asyncio.wait_for(early, 60)  # nobody reads again: extrapolation brings it
    assert not late.done()
    clock.read(1_000)
    await asyncio.wait_for(late, 60)
    assert given_up.cancelled()
    await asyncio.wait_for(clock.reach(1_000), 60)
    assert clock._waiting == {}
