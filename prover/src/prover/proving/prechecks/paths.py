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

    @property
    def is_inside(self) -> bool:
        """True if the index is one of a tree as high as the path is long."""
        return self.index < 1 << len(self.siblings)


@dataclass(frozen=True)
class Update:
    """Replacement of the leaf at the end of a path."""

    path: Path
    old: bytes
    new: bytes


def hash_rows(*columns: Sequence[bytes]) -> list[bytes]:
    """Return the hash of each row of a table with these columns."""
    hashed = hash_many(b"".join(element for row in zip(*columns, strict=True) for element in row), len(columns))
    return [hashed[start : start + FIELD_BYTES] for start in range(0, len(hashed), FIELD_BYTES)]


def roots(leaves: Sequence[bytes], paths: Sequence[Path]) -> list[bytes]:
    """Return the roots to which leaves and their paths lead."""
    return hash_paths(leaves, paths, [len(path.siblings) for path in paths])


def hash_paths(leaves: Sequence[bytes], paths: Sequence[Path], levels: Sequence[int]) -> list[bytes]:
    """Return the node ``levels`` above each leaf; every level is one batch of hashes."""
    nodes = list(leaves)
    level, unfinished = 0, [position for position, count in enumerate(levels) if count > 0]
    while unfinished:
        hashed = hash_many(b"".join([_children(paths[position], nodes[position], level) for position in unfinished]), 2)
        for number, position in enumerate(unfinished):
            nodes[position] = hashed[number * FIELD_BYTES : (number + 1) * FIELD_BYTES]
        level += 1
        unfinished = [position for position in unfinished if levels[position] > level]
    return nodes


def check_updates(old_root: bytes, updates: Sequence[Update], new_root: bytes) -> tuple[list[bool], bool]:
    """Check each old leaf against the root after the updates before it, and the last root against ``new_root``.

    Consecutive paths are hashed only up to the children of the node where they meet. Equal children mean equal roots,
    and different ones different roots, unless there is a collision. Neighbours meet after a few levels.
    """
    height = len(updates[0].path.siblings)
    levels = [_meeting(before.path, after.path) for before, after in pairwise(updates)]
    paths = [update.path for update in updates]
    leaves = [update.old for update in updates] + [update.new for update in updates]
    nodes = hash_paths(leaves, paths + paths, [height, *levels, *levels, height])
    olds, news = nodes[: len(updates)], nodes[len(updates) :]
    holds = [olds[0] == old_root]
    for level, before, made, after, found in zip(levels, paths, news, paths[1:], olds[1:], strict=False):
        holds.append(_children(before, made, level) == _children(after, found, level))
    return holds, news[-1] == new_root


def _meeting(one: Path, other: Path) -> int:
    """Return the level of the children of the lowest node that two paths of one height share."""
    level = len(one.siblings) - 1
    turns = one.index ^ other.index
    while level and one.siblings[level] == other.siblings[level] and not turns >> level & 1:
        level -= 1
    return level


def _children(path: Path, node: bytes, level: int) -> bytes:
    """Return a node of a path at some level and its sibling, from left to right."""
    sibling = path.siblings[level]
    return sibling + node if path.index >> level & 1 else node + sibling
