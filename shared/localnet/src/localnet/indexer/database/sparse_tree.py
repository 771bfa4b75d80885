"""A Poseidon tree in the database; only nodes that differ from those of the empty tree are stored.

A node has the number ``level << 56 | position`` with level 0 at the leaves, on the wire too
(forester/docs/reference/indexer.md, "Node numbers").
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence

from shared.trees.field import FIELD_BYTES
from shared.trees.merkle_tree import zero_hash
from shared.trees.poseidon import hash_many

_LEVEL_SHIFT = 56
_QUERY_KEYS = 10_000


def node_number(level: int, position: int) -> int:
    """Return the number of a node."""
    return level << _LEVEL_SHIFT | position


def level_of(number: int) -> int:
    """Return the level of a node, 0 for a leaf."""
    return number >> _LEVEL_SHIFT


class SparseTree:
    """The nodes of one tree; ``connection`` is inside a transaction."""

    def __init__(self, connection: sqlite3.Connection, tree: int, height: int) -> None:
        self._connection = connection
        self._tree = tree
        self.height = height

    @property
    def root(self) -> bytes:
        """Root of the tree."""
        return self.nodes([node_number(self.height, 0)])[0]

    def stored(self, numbers: Iterable[int]) -> dict[int, bytes]:
        """Return those of the nodes that are stored, by number."""
        wanted = sorted(numbers)
        found: dict[int, bytes] = {}
        for start in range(0, len(wanted), _QUERY_KEYS):
            chunk = wanted[start : start + _QUERY_KEYS]
            marks = ",".join("?" * len(chunk))
            found.update(
                self._connection.execute(
                    f"SELECT number, hash FROM nodes WHERE tree = ? AND number IN ({marks})",  # noqa: S608
                    (self._tree, *chunk),
                )
            )
        return found

    def nodes(self, numbers: Sequence[int]) -> list[bytes]:
        """Return the nodes of these numbers, in order."""
        found = self.stored(set(numbers))
        return [found.get(number) or zero_hash(level_of(number)) for number in numbers]

    def paths(self, positions: Sequence[int]) -> list[list[bytes]]:
        """Return the siblings on each leaf's way to the root, leaf level first."""
        found = self.stored({number for position in positions for number in self.siblings(position)})
        return [
            [found.get(number) or zero_hash(level) for level, number in enumerate(self.siblings(position))]
            for position in positions
        ]

    def siblings(self, position: int) -> list[int]:
        """Return numbers of the siblings on the way from a leaf to the root."""
        return [node_number(level, (position >> level) ^ 1) for level in range(self.height)]

    def ancestors(self, position: int) -> list[int]:
        """Return numbers of the nodes above a leaf, root last."""
        return [node_number(level, position >> level) for level in range(1, self.height + 1)]

    def frontier(self, next_index: int) -> list[bytes]:
        """Return each level's last node at an even index before the free leaves: the filled subtrees of an append."""
        if next_index == 0:
            return [zero_hash(level) for level in range(self.height)]
        return self.nodes([node_number(level, ((next_index - 1) >> level) & ~1) for level in range(self.height)])

    def write(self, leaves: Mapping[int, bytes]) -> bytes:
        """Write leaves by position, hash each node above them once, and return the root."""
        row = dict(leaves)
        needed: set[int] = set()
        for level in range(self.height):
            places = {position >> level for position in row}
            needed.update(node_number(level, place ^ 1) for place in places if place ^ 1 not in places)
        known = self.stored(needed)
        fresh: list[tuple[int, bytes]] = []
        for level in range(self.height + 1):
            fresh += ((node_number(level, place), row[place]) for place in sorted(row))
            if level == self.height:
                break
            empty = zero_hash(level)
            parents = sorted({place >> 1 for place in row})
            children = b"".join(
                row.get(child) or known.get(node_number(level, child)) or empty
                for parent in parents
                for child in (2 * parent, 2 * parent + 1)
            )
            hashes = hash_many(children, 2)
            row = {
                parent: hashes[start : start + FIELD_BYTES]
                for parent, start in zip(parents, range(0, len(hashes), FIELD_BYTES), strict=True)
            }
        self._put(fresh)
        return fresh[-1][1] if leaves else self.root

    def _put(self, fresh: list[tuple[int, bytes]]) -> None:
        kept = [(self._tree, number, node) for number, node in fresh if node != zero_hash(level_of(number))]
        gone = [(self._tree, number) for number, node in fresh if node == zero_hash(level_of(number))]
        self._connection.executemany("INSERT OR REPLACE INTO nodes VALUES (?, ?, ?)", kept)
        self._connection.executemany("DELETE FROM nodes WHERE tree = ? AND number = ?", gone)
