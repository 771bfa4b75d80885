"""Merkle paths of a request, hashed level by level in batches."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from shared.field import FIELD_BYTES
from shared.poseidon import hash_many


@dataclass(frozen=True)
class Path:
    """The siblings of a leaf from the leaf upwards; bits of ``index`` beyond the path do not count."""

    index: int
    siblings: Sequence[bytes]


@dataclass(frozen=True)
class Update:
    """The leaf at the end of a path replaced by another."""

    path: Path
    old: bytes
    new: bytes


def roots(leaves: Sequence[bytes], paths: Sequence[Path]) -> list[bytes]:
    """The roots to which leaves and their paths lead."""
    return climb(leaves, paths, [len(path.siblings) for path in paths])


def climb(leaves: Sequence[bytes], paths: Sequence[Path], levels: Sequence[int]) -> list[bytes]:
    """The nodes so many levels above the leaves; every level is one batch of hashes."""
    nodes = list(leaves)
    level, rising = 0, [place for place, count in enumerate(levels) if count > 0]
    while rising:
        hashed = hash_many(b"".join([_children(paths[place], nodes[place], level) for place in rising]), 2)
        for number, place in enumerate(rising):
            nodes[place] = hashed[number * FIELD_BYTES : (number + 1) * FIELD_BYTES]
        level += 1
        rising = [place for place in rising if levels[place] > level]
    return nodes


def follow(old_root: bytes, updates: Sequence[Update], new_root: bytes) -> tuple[list[bool], bool]:
    """Whether each old leaf is under the root that the updates before it lead to, and the last one to ``new_root``.

    Two paths in a row are hashed only up to the children of the node where they become one: equal children mean equal
    roots, and different ones different roots, or somebody knows a collision. Neighbours meet after a few levels.
    """
    height = len(updates[0].path.siblings)
    levels = [_meeting(before.path, after.path) for before, after in pairwise(updates)]
    paths = [update.path for update in updates]
    leaves = [update.old for update in updates] + [update.new for update in updates]
    nodes = climb(leaves, paths + paths, [height, *levels, *levels, height])
    olds, news = nodes[: len(updates)], nodes[len(updates) :]
    stands = [olds[0] == old_root]
    for level, before, made, after, found in zip(levels, paths, news, paths[1:], olds[1:], strict=False):
        stands.append(_children(before, made, level) == _children(after, found, level))
    return stands, news[-1] == new_root


def _meeting(one: Path, other: Path) -> int:
    """The level of the children of the lowest node from which on two paths of one height are the same."""
    level = len(one.siblings) - 1
    turns = one.index ^ other.index
    while level and one.siblings[level] == other.siblings[level] and not turns >> level & 1:
        level -= 1
    return level


def _children(path: Path, node: bytes, level: int) -> bytes:
    """A node of a path at some level and its sibling, from left to right."""
    sibling = path.siblings[level]
    return sibling + node if path.index >> level & 1 else node + sibling
