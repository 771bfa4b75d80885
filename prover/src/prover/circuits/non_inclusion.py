"""Addresses are not in address trees: each is strictly between an element and the next one."""

from __future__ import annotations

from dataclasses import dataclass

from prover.circuits.frontend.system import ConstraintSystem, Expression, Inputs
from prover.circuits.gadgets.bits import assert_less, to_bits
from prover.circuits.gadgets.hash_chain import hash_chain_of_pairs
from prover.circuits.gadgets.merkle import merkle_root
from prover.circuits.gadgets.poseidon import poseidon


@dataclass(frozen=True)
class Addresses:
    """New values, the elements below and above them, and the position of the lower one in the tree with this root."""

    roots: list[Expression]
    values: list[Expression]
    lows: list[Expression]
    highs: list[Expression]
    indices: list[Expression]
    paths: list[list[Expression]]

    @classmethod
    def declare(cls, secret: Inputs, count: int, height: int) -> Addresses:
        """Declare the inputs for ``count`` addresses."""
        return cls(
            secret.vector("Roots", count),
            secret.vector("Values", count),
            secret.vector("LeafLowerRangeValues", count),
            secret.vector("LeafHigherRangeValues", count),
            secret.vector("InPathIndices", count),
            secret.matrix("InPathElements", count, height),
        )

    def claim(self) -> Expression:
        """Return the hash of roots and values."""
        return hash_chain_of_pairs(self.roots, self.values)

    def assert_absent(self, system: ConstraintSystem) -> None:
        """Assert that no tree has its value."""
        for root, value, low, high, index, path in zip(
            self.roots, self.values, self.lows, self.highs, self.indices, self.paths, strict=True
        ):
            assert_less(low, value)
            assert_less(value, high)
            leaf = poseidon(low, high)
            system.assert_equal(merkle_root(leaf, to_bits(index, len(path)), path), root)


def non_inclusion(system: ConstraintSystem, addresses: int, height: int) -> None:
    """Define the circuit. Public: the hash of all roots and values."""
    public_input_hash = system.public.scalar("PublicInputHash")
    absent = Addresses.declare(system.secret, addresses, height)

    system.assert_equal(public_input_hash, absent.claim())
    absent.assert_absent(system)
