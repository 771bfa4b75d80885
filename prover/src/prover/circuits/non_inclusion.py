"""Addresses are not in address trees: each is strictly between an element and the next one."""

from __future__ import annotations

from dataclasses import dataclass

from prover.circuits.frontend.system import ConstraintSystem, Expression
from prover.circuits.gadgets.bits import assert_less, to_bits
from prover.circuits.gadgets.hash_chain import hash_chain_of_pairs
from prover.circuits.gadgets.merkle import merkle_root
from prover.circuits.gadgets.poseidon import poseidon
from shared.requests.circuit_inputs import NEXT_INDICES, PUBLIC_INPUT_HASH, NamedValues


@dataclass(frozen=True)
class Addresses:
    """New values, their low elements, and the positions of these in the trees with these roots.

    ``lows`` are the members of the low elements that their leaves hash.
    """

    roots: list[Expression]
    values: list[Expression]
    lows: list[tuple[Expression, ...]]
    indices: list[Expression]
    paths: list[list[Expression]]

    @classmethod
    def of(cls, inputs: NamedValues[Expression], part: str = "") -> Addresses:
        """Return the addresses of the inputs whose names begin with that of the part."""
        members = [part + "LeafLowerRangeValues", part + NEXT_INDICES, part + "LeafHigherRangeValues"]
        return cls(
            inputs.vector(part + "Roots"),
            inputs.vector(part + "Values"),
            list(zip(*(inputs.vector(name) for name in members if name in inputs), strict=True)),
            inputs.vector(part + "InPathIndices"),
            inputs.matrix(part + "InPathElements"),
        )

    def claim(self) -> Expression:
        """Return the hash of roots and values."""
        return hash_chain_of_pairs(self.roots, self.values)

    def assert_absent(self, system: ConstraintSystem) -> None:
        """Assert that no tree has its value."""
        for root, value, low, index, path in zip(
            self.roots, self.values, self.lows, self.indices, self.paths, strict=True
        ):
            assert_less(low[0], value)
            assert_less(value, low[-1])
            leaf = poseidon(*low)
            system.assert_equal(merkle_root(leaf, to_bits(index, len(path)), path), root)


def non_inclusion(system: ConstraintSystem, inputs: NamedValues[Expression]) -> None:
    """Define the circuit. Public: all roots and values; in version 2 their hash."""
    absent = Addresses.of(inputs)

    if PUBLIC_INPUT_HASH in inputs:
        system.assert_equal(inputs.scalar(PUBLIC_INPUT_HASH), absent.claim())
    absent.assert_absent(system)
