"""Groups of wires: each list of bases is one or two runs of them, and every base is found in its place."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import cffi
from hypothesis import given, settings
from hypothesis import strategies as st

ffi = cffi.FFI()
ffi.cdef("""
int32_t t_wire_groups(const uint32_t *const lists[], const uint32_t counts[], uint32_t wires, int32_t *groups,
                      int64_t *places, uint32_t *looked_up);
""")

ORDER = ("BK", "ABK", "AK", "K", "B", "AB", "A")
"""The order of native/src/key/wire_groups.h."""


@dataclass(frozen=True)
class Groups:
    """The group of each wire (-1: none), places of bases in A, B and K by wire, and which of them are looked up."""

    of_wires: list[int]
    places: list[dict[int, int]]
    looked_up: set[str]


def groups_of(hooks: Any, lists: list[list[int]], wires: int) -> Groups:
    arrays = [ffi.new("uint32_t[]", wires_of or [0]) for wires_of in lists]
    groups, places = ffi.new("int32_t[]", wires + 1), ffi.new("int64_t[]", 3 * wires + 1)
    looked_up = ffi.new("uint32_t *")
    count = hooks.t_wire_groups(
        ffi.new("const uint32_t *[]", arrays), [len(wires_of) for wires_of in lists], wires, groups, places, looked_up
    )
    of_wires = list(groups)[:wires]
    assert count == len(set(of_wires) - {-1})
    found = [{i: places[n * wires + i] for i in range(wires) if places[n * wires + i] >= 0} for n in range(3)]
    return Groups(of_wires, found, {name for n, name in enumerate("ABK") if looked_up[0] >> n & 1})


def lists_of_kinds(kinds: list[str]) -> list[list[int]]:
    """Return ascending wires of A, B and K, where wire i is in the lists that kinds[i] names."""
    return [[wire for wire, kind in enumerate(kinds) if name in kind] for name in "ABK"]


def in_order_of_groups(kinds: list[str], lists: list[list[int]]) -> list[list[int]]:
    return [sorted(wires, key=lambda wire: (ORDER.index(kinds[wire]), wire)) for wires in lists]


KINDS = st.lists(st.sampled_from(("", *ORDER)), max_size=60)


@given(kinds=KINDS, seed=st.integers(0, 2**32))
@settings(max_examples=300, deadline=None)
def test_groups__lists_in_any_order__find_each_base(hooks: Any, kinds: list[str], seed: int) -> None:
    lists = lists_of_kinds(kinds)
    for wires in lists:
        random.Random(seed).shuffle(wires)
    groups = groups_of(hooks, lists, len(kinds))
    assert groups.places == [{wire: place for place, wire in enumerate(wires)} for wires in lists]
    present = sorted({kind for kind in kinds if kind}, key=ORDER.index)
    assert groups.of_wires == [present.index(kind) if kind else -1 for kind in kinds]


@given(kinds=KINDS)
@settings(max_examples=300, deadline=None)
def test_groups__lists_in_their_order__look_no_place_up(hooks: Any, kinds: list[str]) -> None:
    groups = groups_of(hooks, in_order_of_groups(kinds, lists_of_kinds(kinds)), len(kinds))
    assert groups.looked_up == set()


def test_groups__ascending_lists__are_looked_up_where_groups_part_them(hooks: Any) -> None:
    kinds = ["ABK", "AK", "ABK", "AK"]
    assert groups_of(hooks, lists_of_kinds(kinds), len(kinds)).looked_up == {"A", "K"}


def test_groups__no_wires__are_none(hooks: Any) -> None:
    assert groups_of(hooks, [[], [], []], 0).of_wires == []
