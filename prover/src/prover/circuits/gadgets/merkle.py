"""Binary Merkle trees: the root over a leaf, and replacement of a leaf."""

from __future__ import annotations

from prover.circuits.frontend.gadget import gadget
from prover.circuits.frontend.system import Expression
from prover.circuits.gadgets.choice import select
from prover.circuits.gadgets.poseidon import poseidon


def merkle_root(leaf: Expression, bits: list[Expression], siblings: list[Expression]) -> Expression:
    """Return the root over ``leaf`` at the index with these bits, both lists from the leaves upwards."""
    node = leaf
    for bit, sibling in zip(bits, siblings, strict=True):
        node = parent(node, bit, sibling)
    return node


@gadget
def parent(node: Expression, bit: Expression, sibling: Expression) -> Expression:
    """Return H(node, sibling), or H(sibling, node) if the bit is 1: the node is on the right."""
    return poseidon(select(bit, sibling, node), select(bit, node, sibling))


def merkle_update(
    old_root: Expression,
    old_leaf: Expression,
    new_leaf: Expression,
    bits: list[Expression],
    siblings: list[Expression],
) -> Expression:
    """Assert that ``old_leaf`` is under ``old_root``; return the root with ``new_leaf`` instead."""
    old_root.system.assert_equal(merkle_root(old_leaf, bits, siblings), old_root)
    return merkle_root(new_leaf, bits, siblings)
