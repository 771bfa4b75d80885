"""Address trees against golden roots and against the definition: a sorted list of values with links."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learning import learn_element

from shared.trees.field import SCALAR_MODULUS, ZERO
from shared.trees.indexed_merkle_tree import (
    LARGEST_VALUE,
    Element,
    IndexedMerkleTree,
    LowElementUnknown,
    ValueInvalid,
    ValuePresent,
)
from shared.trees.merkle_tree import MerkleTree, NodeUnknown, ProofWrong, StageUnknown, TreeFull, root_of
from shared.trees.poseidon import hash2, hash3

VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "circuits"
VERSIONS = [1, 2]

versions = st.sampled_from(VERSIONS)
values = st.lists(st.integers(1, 40), unique=True, max_size=10)


def golden(version: int) -> dict[str, Any]:
    table: dict[str, Any] = json.loads((VECTORS / "indexed_tree.json").read_text())
    entry: dict[str, Any] = table[f"v{version}"]
    return entry


def element(text: str) -> bytes:
    return int(text, 16).to_bytes(32, "big")


def number(value: int) -> bytes:
    return value.to_bytes(32, "big")


@pytest.mark.parametrize("version", VERSIONS)
def test_first_root__on_the_page_of_hashing__is_the_golden_one(version: int) -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "hashing.md"
    [row] = [line for line in page.read_text().splitlines() if line.startswith("| first root |")]
    assert row.split(" | ")[version].rstrip(" |") == golden(version)["init_root"]


def naive_tree(version: int, height: int, inserted: list[int]) -> MerkleTree:
    """Return the tree by definition: every element points at the next larger one."""
    largest = int.from_bytes(LARGEST_VALUE, "big")
    order = [0, largest, *inserted] if version == 1 else [0, *inserted]
    places = {value: index for index, value in enumerate(order)}
    tree = MerkleTree(height)
    for index, value in enumerate(order):
        above = min((other for other in [*order, largest] if other > value), default=0)
        if version == 1:
            tree.set_many({index: hash3(number(value), number(places[above] if above else 0), number(above))})
        else:
            tree.set_many({index: hash2(number(value), number(above))})
    return tree


@pytest.mark.parametrize("version", VERSIONS)
def test_tree__at_first__has_the_golden_root(version: int) -> None:
    entry = golden(version)
    tree = IndexedMerkleTree(version)
    assert tree.height == entry["height"]
    assert tree.root == element(entry["init_root"])
    assert [tree.leaf(index) for index in range(tree.next_index)] == [element(text) for text in entry["init_leaves"]]


@pytest.mark.parametrize("height", ["26", "32", "40"])
def test_tree__of_another_height__has_the_golden_root(height: str) -> None:
    table = json.loads((VECTORS / "indexed_tree.json").read_text())["v2_style_init_root_by_height"]
    assert IndexedMerkleTree(2, int(height)).root == element(table[height])


@pytest.mark.parametrize("version", VERSIONS)
def test_insert__golden_values__give_the_golden_low_elements_and_roots(version: int) -> None:
    tree = IndexedMerkleTree(version)
    for step in golden(version)["appends"]:
        low = tree.low_element(element(step["value"]))
        assert low.index == step["lowIndex"]
        assert (low.value, low.next_value) == (element(step["lowValue"]), element(step["lowNextValue"]))
        [inserted] = tree.insert_many([element(step["value"])])
        assert inserted.low == low
        assert inserted.new_write.index == step["newIndex"]
        assert tree.root == element(step["root"])
    at_once = IndexedMerkleTree(version)
    at_once.insert_many([element(step["value"]) for step in golden(version)["appends"]])
    assert at_once.root == tree.root


@settings(max_examples=60, deadline=None)
@given(version=versions, first=values, second=values)
def test_insert_many__any_values__equals_the_definition(version: int, first: list[int], second: list[int]) -> None:
    second = [value for value in second if value not in first]
    tree = IndexedMerkleTree(version, 5)
    root = tree.root
    inserted = []
    for batch in (first, second):
        for value, step in zip(batch, tree.insert_many([number(value) for value in batch]), strict=True):
            for write in (step.low_write, step.new_write):
                assert root_of(write.old, write.index, write.path) == root
                root = root_of(write.new, write.index, write.path)
            assert step.low_write.old == step.low.leaf(version)
            assert step.new_write.old == ZERO
            inserted.append(value)
            assert step.low.value < number(value) < step.low.next_value
        assert tree.root == root
    assert tree.root == naive_tree(version, 5, inserted).root
    assert [element.value for element in tree.elements if element.value != LARGEST_VALUE] == [
        number(value) for value in sorted([0, *inserted])
    ]


@settings(max_examples=60, deadline=None)
@given(version=versions, present=values, wanted=st.integers(1, 41))
def test_absence__of_any_value__is_proved_exactly_if_it_is_absent(
    version: int, present: list[int], wanted: int
) -> None:
    tree = IndexedMerkleTree(version, 5)
    tree.insert_many([number(value) for value in present])
    if wanted in present:
        with pytest.raises(ValuePresent):
            tree.absence(number(wanted))
        with pytest.raises(ValuePresent):
            tree.insert_many([number(wanted)])
        return
    absence = tree.absence(number(wanted))
    assert absence.low.value < number(wanted) < absence.low.next_value
    assert absence.root == tree.root
    assert root_of(absence.low.leaf(version), absence.low.index, absence.path) == tree.root


@settings(max_examples=60, deadline=None)
@given(
    version=versions,
    batches=st.lists(st.lists(st.integers(1, 40), max_size=4), min_size=1, max_size=4),
    back=st.integers(0, 3),
    confirmed=st.integers(0, 3),
)
def test_roll_back__of_any_stage__restores_elements_and_root(
    version: int, batches: list[list[int]], back: int, confirmed: int
) -> None:
    tree = IndexedMerkleTree(version, 6)
    seen: set[int] = set()
    states, stages = [], []
    for batch in batches:
        fresh = [value for value in dict.fromkeys(batch) if value not in seen]
        seen |= set(fresh)
        states.append((tree.root, tree.next_index, tree.elements))
        stages.append(tree.stage())
        tree.insert_many([number(value) for value in fresh])
    back %= len(stages)
    if confirmed < back:
        tree.confirm(stages[confirmed])
        with pytest.raises(StageUnknown):
            tree.roll_back(stages[confirmed])
    tree.roll_back(stages[back])
    assert (tree.root, tree.next_index, tree.elements) == states[back]
    again = [value for batch in batches[back:] for value in batch]
    tree.insert_many([number(value) for value in dict.fromkeys(again) if number(value) not in known(tree)])
    order = [element.value for element in sorted(tree.elements, key=lambda element: element.index)]
    inserted = [int.from_bytes(value, "big") for value in order if ZERO < value < LARGEST_VALUE]
    assert tree.root == naive_tree(version, 6, inserted).root


def known(tree: IndexedMerkleTree) -> set[bytes]:
    return {element.value for element in tree.elements}


@pytest.mark.parametrize("version", VERSIONS)
def test_insert_many__one_bad_value__changes_nothing(version: int) -> None:
    tree = IndexedMerkleTree(version, 4)
    tree.insert_many([number(5)])
    state = tree.root, tree.next_index, tree.elements
    cases: list[tuple[bytes, type[Exception]]] = [
        (number(5), ValuePresent),
        (number(7), ValuePresent),  # twice in the batch
        (ZERO, ValueInvalid),
        (LARGEST_VALUE, ValueInvalid),
        (number(2**248), ValueInvalid),
        (SCALAR_MODULUS.to_bytes(32, "big"), ValueError),
        (b"\1", ValueError),
    ]
    for bad, expected in cases:
        with pytest.raises(expected):
            tree.insert_many([number(7), number(3), bad])
        assert (tree.root, tree.next_index, tree.elements) == state
    with pytest.raises(TreeFull):
        tree.insert_many([number(value) for value in range(10, 26)])
    assert (tree.root, tree.next_index, tree.elements) == state


@settings(max_examples=40, deadline=None)
@given(present=values.filter(bool), more=values, staged=st.booleans())
def test_from_frontier__taught_the_low_elements__continues_like_the_tree_itself(
    present: list[int], more: list[int], staged: bool
) -> None:
    more = [value for value in more if value not in present]
    whole = IndexedMerkleTree(2, 6)
    whole.insert_many([number(value) for value in present])
    part = IndexedMerkleTree.from_frontier(2, 6, whole.next_index, whole.frontier())
    assert part.root == whole.root
    needed = [(whole.low_element(number(value)), whole.absence(number(value)).path) for value in more]
    batches = [more[:2], more[2:]] if staged else [more]
    position = 0
    for batch in batches:
        for low, path in needed[position : position + len(batch)]:
            learn_element(part, low, path)  # against the root before the stages
        position += len(batch)
        part.stage()
        wanted = [number(value) for value in batch]
        assert part.insert_many(wanted) == whole.insert_many(wanted)
    assert part.root == whole.root


def test_from_frontier__a_low_element_it_was_not_taught__is_refused() -> None:
    whole = IndexedMerkleTree(2, 6)
    whole.insert_many([number(10), number(20)])
    part = IndexedMerkleTree.from_frontier(2, 6, whole.next_index, whole.frontier())
    low = whole.low_element(number(15))
    with pytest.raises(LowElementUnknown):
        part.low_element(number(15))
    with pytest.raises(NodeUnknown):
        part.leaf(low.index)
    with pytest.raises(ProofWrong):
        learn_element(part, Element(low.index, low.value, low.next_index, number(21)), whole.proof(low.index))
    learn_element(part, low, whole.proof(low.index))
    assert part.low_element(number(15)) == low
    for value, expected in ((25, LowElementUnknown), (5, LowElementUnknown), (10, ValuePresent), (20, ValuePresent)):
        with pytest.raises(expected):
            part.insert_many([number(value)])
    assert part.root == whole.root


def test_tree__of_an_unknown_version__is_refused() -> None:
    with pytest.raises(ValueError, match="version 3"):
        IndexedMerkleTree(3)


def test_learn_many__low_elements__teaches_them_with_their_paths() -> None:
    whole = IndexedMerkleTree(2, 6)
    whole.insert_many([number(10), number(20), number(30)])
    part = IndexedMerkleTree.from_frontier(2, 6, whole.next_index, whole.frontier())
    lows = [whole.low_element(number(value)) for value in (15, 25)]

    def sibling(level: int, position: int) -> bytes:
        return whole.proof((position ^ 1) << level)[level]

    with pytest.raises(ProofWrong):
        part.learn_many([*lows, Element(0, number(0), 1, number(9))], sibling)
    assert part.elements == []
    part.learn_many(lows, sibling)
    values = [number(value) for value in (15, 25, 17)]
    assert part.insert_many(values) == whole.insert_many(values)
    assert part.root == whole.root
