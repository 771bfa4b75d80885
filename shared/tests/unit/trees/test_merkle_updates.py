"""Checks of leaf updates, compared with the roots of whole paths."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from shared.trees.field import FIELD_BYTES
from shared.trees.merkle_tree import MerkleTree
from shared.trees.merkle_updates import LeafUpdateCheck, LeafUpdates
from shared.trees.poseidon import hash2


def element(choose: random.Random) -> bytes:
    return choose.randrange(1 << 250).to_bytes(FIELD_BYTES, "big")


def updates_of(choose: random.Random, height: int, indices: list[int]) -> LeafUpdates:
    """Return valid updates of a tree that is half full."""
    tree = MerkleTree(height)
    tree.append([element(choose) for _ in range(1 << height - 1)])
    old_root = tree.root
    news = [element(choose) for _ in indices]
    written = tree.set_proved(zip(indices, news, strict=True))
    return LeafUpdates(
        indices,
        b"".join(write.old for write in written),
        b"".join(news),
        [b"".join(sibling for write in written for sibling in write.path)],
        old_root,
        tree.root,
    )


def alternating(updates: LeafUpdates) -> LeafUpdates:
    """Return the same updates with their paths in two lists."""
    (siblings,) = updates.siblings
    size = len(siblings) // len(updates.indices)
    paths = [siblings[start : start + size] for start in range(0, len(siblings), size)]
    return replace(updates, siblings=[b"".join(paths[::2]), b"".join(paths[1::2])])


def root_over(leaf: bytes, index: int, path: list[bytes]) -> bytes:
    for level, sibling in enumerate(path):
        leaf = hash2(sibling, leaf) if index >> level & 1 else hash2(leaf, sibling)
    return leaf


def expected(updates: LeafUpdates) -> int:
    """Return the first failure by the definition: whole paths, one after the other."""
    count = len(updates.indices)
    paths, olds, news = map(bytes, (*updates.siblings, updates.olds, updates.news))
    height = len(paths) // FIELD_BYTES // count
    root = updates.old_root
    for update, index in enumerate(updates.indices):
        siblings = [
            paths[place * FIELD_BYTES :][:FIELD_BYTES] for place in range(update * height, (update + 1) * height)
        ]
        old, new = (leaves[update * FIELD_BYTES :][:FIELD_BYTES] for leaves in (olds, news))
        if root_over(old, index, siblings) != root:
            return update
        root = root_over(new, index, siblings)
    return count + (root == updates.new_root)


@settings(deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 6), st.data())
def test_first_failure__of_updates_with_a_few_faults__is_that_of_whole_paths(
    choose: random.Random, height: int, data: st.DataObject
) -> None:
    indices = data.draw(st.lists(st.integers(0, (1 << height) - 1), min_size=1, max_size=24))
    updates = updates_of(choose, height, indices)
    assert updates.first_failure() == expected(updates) == len(indices) + 1
    for name in data.draw(st.lists(st.sampled_from(["olds", "news", "siblings", "old_root", "new_root"]), max_size=2)):
        given_bytes = bytes(updates.siblings[0] if name == "siblings" else getattr(updates, name))
        at = choose.randrange(len(given_bytes) // FIELD_BYTES) * FIELD_BYTES
        other = choose.choice([element(choose), given_bytes[:FIELD_BYTES], bytes(FIELD_BYTES)])
        changed = given_bytes[:at] + other + given_bytes[at + FIELD_BYTES :]
        value: Any = [changed] if name == "siblings" else changed
        updates = replace(updates, **{name: value})
    if data.draw(st.booleans()):
        moved = data.draw(st.permutations(indices))
        updates = replace(updates, indices=moved)
    found = updates.first_failure()
    assert found == expected(updates)
    if len(indices) % 2 == 0:
        assert alternating(updates).first_failure() == found


def test_first_failure__of_many_updates_checked_by_several_threads__is_that_of_one() -> None:
    choose = random.Random(7)
    updates = updates_of(choose, 9, choose.sample(range(512), 200))
    faults = [updates, replace(updates, new_root=updates.old_root)]
    for update in (0, 77, 199):
        at = update * FIELD_BYTES
        olds = bytes(updates.olds)
        faults.append(replace(updates, olds=olds[:at] + element(choose) + olds[at + FIELD_BYTES :]))
    for each in faults:
        check = LeafUpdateCheck(each)
        with ThreadPoolExecutor(4) as threads:
            for call in [threads.submit(check.run) for _ in range(4)]:
                call.result()
        assert check.first_failure == each.first_failure() == expected(each)


@pytest.mark.parametrize("height", [1, 32, 40, 64])
def test_first_failure__of_one_update__is_found_at_every_level(height: int) -> None:
    choose = random.Random(height)
    path = [element(choose) for _ in range(height)]
    index, old, new = choose.randrange(1 << height), element(choose), element(choose)
    roots = root_over(old, index, path), root_over(new, index, path)
    good = LeafUpdates([index], old, new, [b"".join(path)], *roots)
    assert good.first_failure() == 2
    assert replace(good, indices=[index | 1 << height]).first_failure() == 2
    for level in range(height):
        wrong = b"".join([*path[:level], element(choose), *path[level + 1 :]])
        assert replace(good, siblings=[wrong]).first_failure() == 0
        assert replace(good, indices=[index ^ 1 << level]).first_failure() == 0
    assert replace(good, new_root=old).first_failure() == 1


def test_first_failure__lengths_that_do_not_match__are_refused() -> None:
    zero = bytes(FIELD_BYTES)
    for updates in (
        LeafUpdates([], b"", b"", [b""], zero, zero),
        LeafUpdates([0], zero, zero, [], zero, zero),
        LeafUpdates([0], zero, zero, [zero, zero], zero, zero),
        LeafUpdates([0, 1], zero * 2, zero * 2, [zero * 2, zero], zero, zero),
        LeafUpdates([0], zero, zero, [zero * 65], zero, zero),
        LeafUpdates([0, 1], zero * 2, zero * 2, [zero * 3], zero, zero),
        LeafUpdates([0], zero, zero * 2, [zero], zero, zero),
    ):
        with pytest.raises(ValueError, match=r"siblings each|old and a new leaf|two equally long"):
            updates.first_failure()
