"""Keys that leave memory: the longest unused, as few as needed, none that must stay."""

from __future__ import annotations

from typing import Any, cast

from prover.keys.store.residency import Residency, Slot
from shared.requests.circuit_id import CircuitId, CircuitKind


def with_keys(budget: int, *sizes: int) -> tuple[Residency, list[Slot]]:
    """Return a residency with loaded keys of these sizes, used once each in this order."""
    residency, slots = Residency(budget), []
    for number, size in enumerate(sizes, start=1):
        slot = residency.add(CircuitId(CircuitKind.INCLUSION, 2, (32,), (number,)))
        loaded: Any = object()
        slot.key.set_result(loaded)
        slot.bytes = size
        residency.use(slot)
        residency.leave(slot)
        slots.append(slot)
    return residency, slots


def newcomer(residency: Residency, size: int) -> Slot:
    slot = residency.add(CircuitId(CircuitKind.NON_INCLUSION, 2, (40,), (1,)))
    slot.bytes = size
    residency.use(slot)
    return slot


def test_evict_idle__for_a_newcomer__takes_the_longest_unused_and_no_more() -> None:
    residency, slots = with_keys(100, 30, 30, 30)
    residency.use(slots[0])
    residency.leave(slots[0])
    new = newcomer(residency, 40)
    assert residency.excess_bytes() == 30
    assert residency.evict_idle(new) == [slots[1]]
    assert residency.loaded() == [slots[0], slots[2]]


def test_evict_idle__newcomer_that_is_unused_longest__takes_the_others_and_spares_it() -> None:
    residency, (new, other) = with_keys(100, 60, 60)
    assert residency.evict_idle(new) == [other]


def test_evict_idle__memory_of_evicted_keys__counts_until_they_have_ended_and_is_not_evicted_twice() -> None:
    residency, slots = with_keys(100, 30, 30, 30)
    new = newcomer(residency, 40)
    assert residency.evict_idle(new) == [slots[0]]
    assert residency.evict_idle(new) == []
    assert residency.retire_busy(new) == []
    assert (residency.excess_bytes(), residency.loaded_bytes()) == (30, 90)
    residency.ended(slots[0])
    assert (residency.excess_bytes(), residency.loaded_bytes()) == (0, 60)


def test_retire_busy__keys_in_use__takes_the_one_that_was_entered_longest_ago() -> None:
    residency, slots = with_keys(90, 30, 30)
    residency.use(slots[1])
    residency.use(slots[0])
    loaded_last, loaded = newcomer(residency, 30), cast("Any", object())
    loaded_last.key.set_result(loaded)
    needed = residency.add(CircuitId(CircuitKind.NON_INCLUSION, 2, (40,), (2,)))
    needed.need = 30
    assert residency.retire_busy(needed) == [slots[1]]


def waiting(residency: Residency, number: int, need: int) -> Slot:
    slot = residency.add(CircuitId(CircuitKind.NON_INCLUSION, 2, (40,), (number,)))
    slot.need = need
    residency.use(slot)
    return slot


def test_first_waiting__is_passed_by_slots_that_fit_now_and_next_to_it() -> None:
    residency, slots = with_keys(130, 80)
    residency.use(slots[0])
    first, small, another = waiting(residency, 1, 80), waiting(residency, 2, 30), waiting(residency, 3, 30)
    assert residency.wait_first(first) == slots
    assert residency.reserve(small)
    assert not residency.reserve(another)  # it would fit neither now nor next to the first
    assert residency.leave(slots[0])
    residency.ended(slots[0])
    assert not residency.reserve(another)  # it would fit now
    assert residency.reserve(first)


def test_first_waiting__has_idle_slots_to_evict__is_passed_as_if_they_had_left() -> None:
    residency, (_, busy) = with_keys(10, 3, 6)
    residency.use(busy)
    assert residency.wait_first(waiting(residency, 1, 7)) == [busy]
    assert residency.reserve(waiting(residency, 2, 1))


def test_reserve__while_keys_are_destroyed_for_it__is_not_lost_to_the_first_waiting() -> None:
    residency, (idle, busy) = with_keys(10, 4, 5)
    residency.use(busy)
    small, large = waiting(residency, 1, 3), waiting(residency, 2, 8)
    assert residency.make_room(small) == [idle]
    assert residency.wait_first(large) == [busy]
    assert not residency.reserve(small), "the key is not destroyed yet"
    residency.ended(idle)
    assert residency.reserve(small)
    assert residency.excess_bytes() == 0


def test_first_waiting__alone__evicts() -> None:
    residency, slots = with_keys(100, 60, 30)
    residency.use(slots[0])
    first, other = waiting(residency, 1, 60), waiting(residency, 2, 30)
    assert residency.wait_first(first) == slots[:1]
    assert residency.make_room(other) == []
    residency.stop_waiting(first)
    assert residency.make_room(other) == slots[1:]
    assert other.bytes == 30


def test_make_room__that_idle_slots_do_not_give__evicts_none_and_fewer_retire() -> None:
    residency, slots = with_keys(150, 80, 30, 30)
    residency.use(slots[0])
    new = waiting(residency, 1, 80)
    assert residency.make_room(new) == []
    assert new.bytes == 0
    assert residency.wait_first(new) == slots[:1]
    assert residency.leave(slots[0])
    assert residency.make_room(new) == []
    assert new.bytes == 80  # it waits only for the memory of the first, which is being destroyed
    assert residency.loaded() == slots[1:]


def test_wait_first__slot_that_does_not_fit_next_to_keys_in_preparation__keeps_no_memory() -> None:
    residency, slots = with_keys(100, 30)
    slots[0].pinned = slots[0].in_preparation = True
    large, small = waiting(residency, 1, 80), waiting(residency, 2, 30)
    assert residency.wait_first(large) == []
    assert residency.first_waiting is None
    assert residency.reserve(small)


def test_evict_idle__of_keys_in_use_or_kept__takes_none() -> None:
    residency, slots = with_keys(50, 30, 30)
    slots[0].users, slots[1].pinned = 1, True
    new = newcomer(residency, 10)
    assert residency.evict_idle(new) == []
    assert residency.excess_bytes() == 20
    assert residency.pinned_bytes(excluding=new) == 30


def test_retire_busy__takes_as_many_as_needed_and_they_leave_with_their_last_user() -> None:
    residency, slots = with_keys(100, 30, 30, 30)
    for slot in slots:
        slot.users = 2
    new = newcomer(residency, 50)
    assert residency.retire_busy(new) == slots[:2]
    assert residency.retire_busy(new) == []
    assert residency.find(slots[0].circuit) is None
    assert residency.excess_bytes() == 40
    assert not residency.leave(slots[0])
    assert residency.leave(slots[0])
    assert residency.excess_bytes() == 40
    residency.ended(slots[0])
    assert residency.excess_bytes() == 10
    assert not residency.leave(slots[2])
    assert not residency.leave(slots[2])
    assert residency.loaded_bytes() == 60


def test_residency__without_a_budget__never_takes_any() -> None:
    residency = Residency(None)
    slot = newcomer(residency, 10**15)
    assert residency.excess_bytes() == 0
    assert residency.evict_idle(slot) == []
    assert residency.clear() == [slot]
    assert not residency.holds(slot)
