"""Accounts are leaves of state trees."""

from __future__ import annotations

from dataclasses import dataclass

from prover.circuits.frontend.system import ConstraintSystem, Expression, Inputs
from prover.circuits.gadgets.bits import to_bits
from prover.circuits.gadgets.hash_chain import hash_chain_of_pairs
from prover.circuits.gadgets.merkle import merkle_root


@dataclass(frozen=True)
class Accounts:
    """Leaves and their claimed positions in the trees with these roots."""

    roots: list[Expression]
    leaves: list[Expression]
    indices: list[Expression]
    paths: list[list[Expression]]

    @classmethod
    def declare(cls, secret: Inputs, count: int, height: int) -> Accounts:
        """Declare the inputs for ``count`` accounts."""
        return cls(
            secret.vector("Roots", count),
            secret.vector("Leaves", count),
            secret.vector("InPathIndices", count),
            secret.matrix("InPathElements", count, height),
        )

    def claim(self) -> Expression:
        """Return the hash of roots and leaves."""
        return hash_chain_of_pairs(self.roots, self.leaves)

    def assert_included(self, system: ConstraintSystem) -> None:
        """Assert that every leaf is under its root."""
        for root, leaf, index, path in zip(self.roots, self.leaves, self.indices, self.paths, strict=True):
            system.assert_equal(merkle_root(leaf, to_bits(index, len(path)), path), root)


def inclusion(system: ConstraintSystem, accounts: int, height: int) -> None:
    """Define the circuit. Public: the hash of all roots and leaves."""
    public_input_hash = system.public.scalar("PublicInputHash")
    state = Accounts.declare(system.secret, accounts, height)

    system.assert_equal(public_input_hash, state.claim())
    state.assert_included(system)
