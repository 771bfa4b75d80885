"""Statements of the circuits of version 1, with public roots and values."""

from __future__ import annotations

from dataclasses import dataclass

from prover.circuits.frontend.system import ConstraintSystem, Expression, Inputs
from prover.circuits.gadgets.bits import assert_less, to_bits
from prover.circuits.gadgets.merkle import merkle_root
from prover.circuits.gadgets.poseidon import poseidon


@dataclass(frozen=True)
class Inclusion:
    """Public: leaves are under roots."""

    roots: list[Expression]
    leaves: list[Expression]

    @classmethod
    def declare(cls, public: Inputs, count: int) -> Inclusion:
        """Declare the statements about `count` accounts."""
        return cls(public.vector("Roots", count), public.vector("Leaves", count))


@dataclass(frozen=True)
class Positions:
    """Secret: positions of leaves."""

    indices: list[Expression]
    paths: list[list[Expression]]

    @classmethod
    def declare(cls, secret: Inputs, count: int, height: int) -> Positions:
        """Declare the positions of `count` leaves in trees of a height."""
        return cls(secret.vector("InPathIndices", count), secret.matrix("InPathElements", count, height))

    def assert_under(self, system: ConstraintSystem, position: int, leaf: Expression, root: Expression) -> None:
        """Assert that the leaf at a position is under its root."""
        path = self.paths[position]
        system.assert_equal(merkle_root(leaf, to_bits(self.indices[position], len(path)), path), root)


@dataclass(frozen=True)
class NonInclusion:
    """Public: values are not in the trees with these roots."""

    roots: list[Expression]
    values: list[Expression]

    @classmethod
    def declare(cls, public: Inputs, count: int) -> NonInclusion:
        """Declare the statements about `count` addresses."""
        return cls(public.vector("Roots", count), public.vector("Values", count))


@dataclass(frozen=True)
class LowElements:
    """Secret: the low element of each value, with the next one and its index, and its position."""

    lows: list[Expression]
    highs: list[Expression]
    next_indices: list[Expression]
    positions: Positions

    @classmethod
    def declare(cls, secret: Inputs, count: int, height: int) -> LowElements:
        """Declare the low elements of `count` values in trees of a height."""
        return cls(
            secret.vector("LeafLowerRangeValues", count),
            secret.vector("LeafHigherRangeValues", count),
            secret.vector("NextIndices", count),
            Positions.declare(secret, count, height),
        )


def assert_included(system: ConstraintSystem, claims: Inclusion, positions: Positions) -> None:
    """Assert that every leaf is under its root."""
    for position, (leaf, root) in enumerate(zip(claims.leaves, claims.roots, strict=True)):
        positions.assert_under(system, position, leaf, root)


def assert_absent(system: ConstraintSystem, claims: NonInclusion, elements: LowElements) -> None:
    """Assert that every value is strictly between neighbouring elements of its tree."""
    for position, (value, root) in enumerate(zip(claims.values, claims.roots, strict=True)):
        low, high = elements.lows[position], elements.highs[position]
        assert_less(low, value)
        assert_less(value, high)
        leaf = poseidon(low, elements.next_indices[position], high)
        elements.positions.assert_under(system, position, leaf, root)
