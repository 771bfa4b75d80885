"""Slots, heights and blockhashes against a plain model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localnet.chain.slots import BLOCKHASH_WINDOW, Slots

FIRST = 400
STEPS = st.lists(st.one_of(st.just(1), st.integers(1, 700)), max_size=40)


@given(STEPS)
def test_slots__any_jumps__are_those_of_a_list(steps: list[int]) -> None:
    slots = Slots(FIRST, b"genesis")
    visited = [FIRST]
    for step in steps:
        visited.append(visited[-1] + step)
        slots.jump(visited[-1])
    assert [slot for slot in range(FIRST - 2, visited[-1] + 3) if slots.has_block(slot)] == visited
    assert [slots.height_of(slot) for slot in visited] == list(range(FIRST, FIRST + len(visited)))
    assert [slots.slot_at_height(slots.height_of(slot)) for slot in visited] == visited
    assert [slots.parent_of(slot) for slot in visited] == [None, *visited[:-1]]
    assert len({slots.hash_of(slot) for slot in visited}) == len(visited)
    assert slots.recent_hashes() == [(slot, slots.hash_of(slot)) for slot in visited[-2::-1]]
    for slot in range(FIRST, visited[-1] + 1):
        assert slots.latest_at_or_before(slot) == max(other for other in visited if other <= slot)


def test_is_recent__hash_of_a_block__expires_after_the_window_of_blocks() -> None:
    slots = Slots(FIRST, b"genesis")
    old = slots.hash_of(FIRST)
    for _ in range(BLOCKHASH_WINDOW):
        slots.advance()
        assert slots.is_recent(old)
    slots.jump(slots.current + 50)
    assert not slots.is_recent(old)
    assert slots.is_recent(slots.hash_of(FIRST + 1))


def test_is_recent__many_slots_skipped__counts_blocks_only() -> None:
    slots = Slots(FIRST, b"genesis")
    old = slots.hash_of(FIRST)
    slots.jump(FIRST + 100_000)
    assert slots.is_recent(old)


def test_jump__slot_that_is_not_later__is_refused() -> None:
    slots = Slots(FIRST, b"genesis")
    with pytest.raises(ValueError, match="slot 400 is not after the current slot 400"):
        slots.jump(FIRST)


def test_fork_at__earlier_state__keeps_its_hashes_and_changes_the_later_ones() -> None:
    slots = Slots(FIRST, b"genesis")
    slots.jump(FIRST + 10)
    runs, current = tuple(slots.runs), slots.current
    slots.advance()
    lost = slots.hash_of(current + 1)
    slots.jump(FIRST + 30)
    slots.fork_at(runs, current, 1)
    assert slots.current == current + 1
    assert slots.hash_of(current) == runs[-1].hash_of(current)
    assert slots.parent_of(current + 1) == current
    assert slots.hash_of(current + 1) != lost
    assert not slots.is_recent(lost)
