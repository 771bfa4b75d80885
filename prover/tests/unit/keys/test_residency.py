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


def test_evict_idle__memory_of_evicted_keys__counts_until_they_have_ended_and_is_not_evicted_twice() -> None:
    residency, slots = with_keys(100, 30, 30, 30)
    new = newcomer(residency, 40)
    assert residency.evict_idle(new) == [slots[0]]
    assert residency.evict_idle(new) == []
    assert residency.retire_busy() == []
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
    needed.bytes = 30
    assert residency.retire_busy() == [slots[1]]


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
    newcomer(residency, 50)
    assert residency.retire_busy() == slots[:2]
    assert residency.retire_busy() == []
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
