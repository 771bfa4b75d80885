"""One leaf, or one element, of a tree that is known in part, by its path."""

from __future__ import annotations

from collections.abc import Sequence

from shared.trees.indexed_merkle_tree import Element, IndexedMerkleTree
from shared.trees.merkle_tree import MerkleTree


def learn(tree: MerkleTree, index: int, leaf: bytes, path: Sequence[bytes]) -> None:
    """Add a leaf with its siblings, leaf level first."""
    tree.learn_many({index: leaf}, lambda level, _: path[level])


def learn_element(tree: IndexedMerkleTree, element: Element, path: Sequence[bytes]) -> None:
    """Add an element with the siblings of its leaf, leaf level first."""
    tree.learn_many([element], lambda level, _: path[level])
