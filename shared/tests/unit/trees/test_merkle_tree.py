"""Sparse trees against golden roots and against the definition: all nodes of a small tree computed from its leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learning import learn

from shared.trees.field import SCALAR_MODULUS, ZERO
from shared.trees.merkle_tree import (
    MerkleTree,
    NodeUnknown,
    ProofWrong,
    StageUnknown,
    TreeFull,
    root_of,
    zero_hash,
)
from shared.trees.poseidon import hash2

VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "circuits"

leaves = st.integers(0, 5).map(lambda value: value.to_bytes(32, "big"))
heights = st.integers(1, 4)


def load(name: str) -> Any:
    return json.loads((VECTORS / name).read_text())


def element(text: str) -> bytes:
    return int(text, 16).to_bytes(32, "big")


def leaf(value: int) -> bytes:
    return value.to_bytes(32, "big")


def layers(height: int, values: list[bytes]) -> list[list[bytes]]:
    """Return every node of a tree, by definition."""
    rows = [values + [ZERO] * (2**height - len(values))]
    while len(rows[-1]) > 1:
        below = rows[-1]
        rows.append([hash2(left, right) for left, right in zip(below[::2], below[1::2], strict=True)])
    return rows


def path_of(rows: list[list[bytes]], index: int) -> tuple[bytes, ...]:
    return tuple(row[(index >> level) ^ 1] for level, row in enumerate(rows[:-1]))


def assert_same(tree: MerkleTree, values: list[bytes]) -> None:
    rows = layers(tree.height, values)
    assert tree.root == rows[-1][0]
    for index in range(tree.capacity):
        assert tree.leaf(index) == rows[0][index]
        assert tree.proof(index) == path_of(rows, index)


def test_zero_hash__every_level__equals_the_reference() -> None:
    table = load("zero_hashes.json")
    golden = table if isinstance(table, list) else next(value for value in table.values() if isinstance(value, list))
    assert [zero_hash(level) for level in range(len(golden))] == [element(text) for text in golden]
    assert len(golden) == 41


@pytest.mark.parametrize("entry", [e for e in load("merkle_tree.json") if "leaves" in e], ids=lambda e: e["height"])
def test_tree__golden_leaves__has_the_golden_root_and_proofs(entry: dict[str, Any]) -> None:
    tree = MerkleTree(entry["height"])
    tree.set_many({index: element(text) for index, text in entry["leaves"]})
    assert tree.root == element(entry["root"])
    one_by_one = MerkleTree(entry["height"])
    for index, text in reversed(entry["leaves"]):
        one_by_one.set_many({index: element(text)})
    assert one_by_one.root == tree.root
    for proof in entry["proofs"]:
        path = [element(text) for text in proof["path"]]
        assert tree.leaf(proof["index"]) == element(proof["leaf"])
        assert list(tree.proof(proof["index"])) == path
        assert root_of(element(proof["leaf"]), proof["index"], path) == tree.root


def test_from_frontier__golden_frontier__has_the_golden_root_and_gives_it_back() -> None:
    golden = next(entry["frontier"] for entry in load("merkle_tree.json") if "frontier" in entry)
    subtrees = [element(text) for text in golden["subtrees"]]
    tree = MerkleTree.from_frontier(golden["height"], golden["nextIndex"], subtrees)
    assert tree.root == element(golden["root"])
    assert list(tree.frontier()) == subtrees


operations = st.one_of(
    st.tuples(st.just("set"), st.dictionaries(st.integers(0, 15), leaves, max_size=4)),
    st.tuples(st.just("prove"), st.lists(st.tuples(st.integers(0, 15), leaves), max_size=5)),
    st.tuples(st.just("append"), st.lists(leaves, max_size=4)),
    st.tuples(st.just("append_proved"), st.lists(leaves, max_size=4)),
)


@settings(max_examples=60, deadline=None)
@given(height=heights, steps=st.lists(operations, max_size=5))
def test_tree__any_changes__equals_the_definition(height: int, steps: list[tuple[str, Any]]) -> None:
    tree = MerkleTree(height)
    values = [ZERO] * tree.capacity
    for name, argument in steps:
        if name == "set":
            chosen = {index % tree.capacity: value for index, value in argument.items()}
            tree.set_many(chosen)
            for index, value in chosen.items():
                values[index] = value
        elif name == "prove":
            for write in tree.set_proved([(index % tree.capacity, value) for index, value in argument]):
                rows = layers(height, values)
                assert write.old == values[write.index]
                assert write.path == path_of(rows, write.index)
                values[write.index] = write.new
        else:
            start, taken = tree.next_index, argument[: tree.capacity - tree.next_index]
            if name == "append":
                tree.append(taken)
            else:
                for write in tree.append_proved(taken):
                    assert write.old == values[write.index]
                    assert write.path == path_of(layers(height, values), write.index)
                    values[write.index] = write.new
            for index, value in enumerate(taken, start):
                values[index] = value if values[index] == ZERO else values[index]
            assert tree.next_index == start + len(taken)
    assert_same(tree, values)


@settings(max_examples=60, deadline=None)
@given(
    height=heights,
    before=st.lists(leaves, max_size=15),
    ahead=st.dictionaries(st.integers(0, 15), leaves, max_size=2),
    after=st.lists(leaves, min_size=1, max_size=8),
    known=st.sets(st.integers(0, 15)),
)
def test_from_frontier__any_tree__continues_like_the_tree_itself(
    height: int, before: list[bytes], ahead: dict[int, bytes], after: list[bytes], known: set[int]
) -> None:
    whole = MerkleTree(height)
    whole.append(before[: whole.capacity - 1])
    part = MerkleTree.from_frontier(height, whole.next_index, whole.frontier())
    assert part.root == whole.root
    assert part.frontier() == whole.frontier()
    taught = {index for index in known if index < whole.next_index}
    for index in taught:
        learn(part, index, whole.leaf(index), whole.proof(index))
    changes = {
        index % whole.capacity: value
        for index, value in ahead.items()
        if index % whole.capacity in taught or index % whole.capacity >= whole.next_index
    }
    room = after[: whole.capacity - whole.next_index]
    for tree in (whole, part):
        tree.set_many(changes)
    assert part.append_proved(room) == whole.append_proved(room)
    assert part.root == whole.root
    for index in taught:
        assert (part.leaf(index), part.proof(index)) == (whole.leaf(index), whole.proof(index))


def test_from_frontier__what_it_does_not_know__is_refused_not_guessed() -> None:
    whole = MerkleTree(4)
    whole.append([leaf(value) for value in range(1, 8)])
    part = MerkleTree.from_frontier(4, 7, whole.frontier())
    root = part.root
    for index in range(6):
        with pytest.raises(NodeUnknown):
            part.leaf(index)
        with pytest.raises(NodeUnknown):
            part.set_many({7: leaf(9), index: leaf(9)})
        with pytest.raises(NodeUnknown):
            part.set_proved([(7, leaf(9)), (index, leaf(9))])
    assert part.root == root
    assert part.leaf(7) == ZERO
    assert part.leaf(6) == leaf(7)  # the last subtree of an odd count is the leaf itself


@settings(max_examples=60, deadline=None)
@given(
    batches=st.lists(st.dictionaries(st.integers(0, 7), leaves, max_size=3), min_size=1, max_size=5),
    appended=st.lists(leaves, max_size=1),
    back=st.integers(0, 4),
    confirmed=st.integers(0, 4),
)
def test_roll_back__of_any_stage__restores_what_it_began_with(
    batches: list[dict[int, bytes]], appended: list[bytes], back: int, confirmed: int
) -> None:
    tree = MerkleTree(3)
    tree.append([leaf(1), leaf(2)])
    states = []
    stages = []
    for batch in batches:
        states.append((tree.root, tree.next_index, [tree.leaf(index) for index in range(8)]))
        stages.append(tree.stage())
        tree.set_many(batch)
        tree.append(appended)
    back %= len(stages)
    if confirmed < back:
        tree.confirm(stages[confirmed])
        with pytest.raises(StageUnknown):
            tree.roll_back(stages[confirmed])
    tree.roll_back(stages[back])
    root, next_index, values = states[back]
    assert (tree.root, tree.next_index) == (root, next_index)
    assert_same(tree, values)
    with pytest.raises(StageUnknown):
        tree.confirm(stages[back])
    tree.set_many({5: leaf(9)})  # and the tree is usable
    assert_same(tree, [*values[:5], leaf(9), *values[6:]])


@settings(max_examples=60, deadline=None)
@given(
    taught=st.sets(st.integers(0, 4), min_size=1),
    later=st.sets(st.integers(0, 4)),
    staged=st.lists(leaves, max_size=3),
)
def test_learn__old_proofs_while_stages_are_open__patches_them(
    taught: set[int], later: set[int], staged: list[bytes]
) -> None:
    whole = MerkleTree(3)
    whole.append([leaf(value) for value in range(1, 6)])
    part = MerkleTree.from_frontier(3, 5, whole.frontier())
    old = {index: (whole.leaf(index), whole.proof(index)) for index in range(5)}
    root = whole.root
    for index in taught:
        learn(part, index, *old[index])
    stage = part.stage()
    for tree in (whole, part):
        tree.set_many({index: leaf(20 + index) for index in taught})
        tree.append(staged)
    for index in later:
        learn(part, index, *old[index])
    assert part.root == whole.root
    for index in taught | later:
        assert (part.leaf(index), part.proof(index)) == (whole.leaf(index), whole.proof(index))
    part.roll_back(stage)
    assert part.root == root
    for index in taught | later:
        assert (part.leaf(index), part.proof(index)) == old[index]


def test_learn__the_empty_tree_while_its_first_leaf_is_staged__patches_the_proof() -> None:
    tree = MerkleTree(3)
    path = tree.proof(2)
    stage = tree.stage()
    tree.set_many({3: leaf(1)})
    learn(tree, 2, ZERO, path)
    assert_same(tree, [ZERO, ZERO, ZERO, leaf(1)])
    tree.roll_back(stage)
    assert_same(tree, [])


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(leaves, min_size=8, max_size=8),
    next_index=st.integers(0, 8),
    taught=st.sets(st.integers(0, 7), min_size=1),
    writes=st.lists(st.tuples(st.integers(0, 7), leaves), max_size=6),
    appended=st.lists(leaves, max_size=3),
)
def test_from_root__taught_the_leaves_it_needs__continues_like_the_tree_itself(
    values: list[bytes],
    next_index: int,
    taught: set[int],
    writes: list[tuple[int, bytes]],
    appended: list[bytes],
) -> None:
    whole = MerkleTree(3)
    whole.set_many(dict(enumerate(values)))
    whole.skip(next_index)
    part = MerkleTree.from_root(3, next_index, whole.root)
    slots = range(next_index, min(next_index + len(appended), 8))
    for index in taught | set(slots):
        with pytest.raises(NodeUnknown):
            MerkleTree.from_root(3, next_index, whole.root).leaf(index)
        learn(part, index, whole.leaf(index), whole.proof(index))
    for tree in (whole, part):
        tree.append(appended[: len(slots)])
    known = [(index, value) for index, value in writes if index in taught]
    assert part.set_proved(known) == whole.set_proved(known)
    assert (part.root, part.next_index) == (whole.root, whole.next_index)


def test_learn__a_path_that_leads_elsewhere__is_refused() -> None:
    tree = MerkleTree(3)
    tree.append([leaf(1), leaf(2)])
    path = tree.proof(0)
    for wrong in ((leaf(2), path), (leaf(1), (*path[:-1], leaf(3)))):
        with pytest.raises(ProofWrong):
            learn(tree, 0, *wrong)
    learn(tree, 0, leaf(1), path)
    assert_same(tree, [leaf(1), leaf(2)])


def test_append__more_than_fits__changes_nothing() -> None:
    tree = MerkleTree(1)
    tree.append([leaf(1)])
    for write in (tree.append, tree.append_proved):
        with pytest.raises(TreeFull):
            write([leaf(2), leaf(3)])
    with pytest.raises(TreeFull):
        tree.skip(2)
    assert_same(tree, [leaf(1)])
    tree.append([leaf(2)])
    with pytest.raises(TreeFull):
        MerkleTree.from_frontier(1, 2, tree.frontier())


@pytest.mark.parametrize("bad", [b"", bytes(31), bytes(33), SCALAR_MODULUS.to_bytes(32, "big"), b"\xff" * 32])
def test_set__not_a_field_element__changes_nothing(bad: bytes) -> None:
    tree = MerkleTree(2)
    for call in (
        lambda: tree.set_many({0: bad}),
        lambda: tree.set_many({0: leaf(1), 1: bad}),
        lambda: tree.set_proved([(0, leaf(1)), (1, bad)]),
        lambda: tree.append([leaf(1), bad]),
    ):
        with pytest.raises(ValueError, match="not a field element"):
            call()
    assert_same(tree, [])
    assert tree.next_index == 0
    tree.set_many({1: leaf(7)})
    for write in (tree.append, tree.append_proved):
        with pytest.raises(ValueError, match="not a field element"):
            write([leaf(1), bad])  # its slot is occupied; it is refused anyway
    assert tree.next_index == 0


def test_tree__places_outside_it__are_refused() -> None:
    tree = MerkleTree(2)
    for index in (-1, 4):
        for call in (tree.leaf, tree.proof, lambda index: tree.set_many({index: leaf(1)})):
            with pytest.raises(IndexError):
                call(index)
    for height in (0, -1, 254):
        with pytest.raises(ValueError, match="levels"):
            MerkleTree(height)
    with pytest.raises(ValueError, match="frontier"):
        MerkleTree.from_frontier(2, 1, [ZERO])
    with pytest.raises(ValueError, match="next index"):
        MerkleTree.from_root(2, 5, ZERO)


def test_tree__of_the_greatest_height__is_as_cheap_as_its_leaves() -> None:
    tree = MerkleTree(253)
    assert tree.root == zero_hash(253)
    tree.set_many({2**253 - 1: leaf(1)})
    assert root_of(leaf(1), 2**253 - 1, tree.proof(2**253 - 1)) == tree.root


@given(heights, st.lists(leaves, max_size=16), st.sets(st.integers(0, 15)), st.data())
@settings(max_examples=30, deadline=None)
def test_learn_many__leaves_of_a_tree__teaches_what_single_paths_teach(
    height: int, held: list[bytes], chosen: set[int], data: st.DataObject
) -> None:
    whole = MerkleTree(height)
    whole.append(held[: whole.capacity])
    indices = sorted(index for index in chosen if index < whole.capacity)
    one_by_one, at_once = (MerkleTree.from_root(height, whole.next_index, whole.root) for _ in range(2))
    for index in indices:
        learn(one_by_one, index, whole.leaf(index), whole.proof(index))
    asked: list[tuple[int, int]] = []

    def sibling(level: int, position: int) -> bytes:
        asked.append((level, position))
        return node_of(whole, level, position)

    at_once.learn_many({index: whole.leaf(index) for index in indices}, sibling)
    assert len(asked) == len(set(asked)), "no node is asked for twice"
    writes = [(index, data.draw(leaves)) for index in indices]
    assert at_once.set_proved(writes) == one_by_one.set_proved(writes)
    assert at_once.root == one_by_one.root


def test_learn_many__nodes_that_lead_elsewhere__changes_nothing() -> None:
    whole = MerkleTree(3)
    whole.append([leaf(value) for value in range(1, 6)])
    part = MerkleTree.from_root(3, 5, whole.root)
    held = {0: whole.leaf(0), 3: whole.leaf(3)}
    with pytest.raises(ProofWrong, match="2 leaves and their siblings"):
        part.learn_many(held, lambda _level, _position: ZERO)
    with pytest.raises(ProofWrong):
        part.learn_many(held | {0: leaf(9)}, lambda level, position: node_of(whole, level, position))
    with pytest.raises(NodeUnknown):
        part.leaf(0)
    part.learn_many({}, lambda _level, _position: ZERO)
    part.learn_many(held, lambda level, position: node_of(whole, level, position))
    assert part.proof(3) == whole.proof(3)


def node_of(tree: MerkleTree, level: int, position: int) -> bytes:
    """Return a node of a tree, from the path of a leaf below its sibling."""
    return tree.proof((position ^ 1) << level)[level]
