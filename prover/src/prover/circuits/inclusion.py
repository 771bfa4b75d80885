"""Accounts are leaves of state trees."""

from __future__ import annotations

from dataclasses import dataclass

from prover.circuits.frontend.system import ConstraintSystem, Expression
from prover.circuits.gadgets.bits import to_bits
from prover.circuits.gadgets.hash_chain import hash_chain_of_pairs
from prover.circuits.gadgets.merkle import merkle_root
from shared.requests.circuit_inputs import PUBLIC_INPUT_HASH, NamedValues


@dataclass(frozen=True)
class Accounts:
    """Leaves and their claimed positions in the trees with these roots."""

    roots: list[Expression]
    leaves: list[Expression]
    indices: list[Expression]
    paths: list[list[Expression]]

    @classmethod
    def of(cls, inputs: NamedValues[Expression], part: str = "") -> Accounts:
        """Return the accounts of the inputs whose names begin with that of the part."""
        return cls(
            inputs.vector(part + "Roots"),
            inputs.vector(part + "Leaves"),
            inputs.vector(part + "InPathIndices"),
            inputs.matrix(part + "InPathElements"),
        )

    def claim(self) -> Expression:
        """Return the hash of roots and leaves."""
        return hash_chain_of_pairs(self.roots, self.leaves)

    def assert_included(self, system: ConstraintSystem) -> None:
        """Assert that every leaf is under its root."""
        for root, leaf, index, path in zip(self.roots, self.leaves, self.indices, self.paths, strict=True):
            system.assert_equal(merkle_root(leaf, to_bits(index, len(path)), path), root)


def inclusion(system: ConstraintSystem, inputs: NamedValues[Expression]) -> None:
    """Define the circuit. Public: all roots and leaves; in version 2 their hash."""
    state = Accounts.of(inputs)

    if PUBLIC_INPUT_HASH in inputs:
        system.assert_equal(inputs.scalar(PUBLIC_INPUT_HASH), state.claim())
    state.assert_included(system)
