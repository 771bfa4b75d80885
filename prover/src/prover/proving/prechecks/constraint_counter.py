"""Numbers of constraints that cannot hold, counted gadget by gadget without compiling the circuit.

A ``ConstraintCounter`` counts the constraints that the gadgets of ``prover.circuits.gadgets`` emit, and the levels by
which the solver orders them: an instruction is one level above the highest wire that it reads, inputs are at level
-1. When several constraints fail, the solver names the lowest level, and there the lowest number. Tests compare both
with the compiler.
"""

from dataclasses import dataclass
from typing import Final

from prover.circuits.frontend.tape import INPUT_LEVEL
from prover.circuits.gadgets.poseidon_constants import FULL_ROUNDS, PARTIAL_ROUNDS
from prover.circuits.widths import ADDRESS_BITS

_FIFTH_POWER: Final = 3
"""Constraints and levels of an S-box."""


@dataclass(frozen=True, order=True)
class Failure:
    """A constraint that does not hold, in the order in which the solver reports them.

    ``path`` is the JSON path of the invalid member of the request, ``reason`` the explanation.
    """

    level: int
    constraint: int
    path: str
    reason: str


class ConstraintCounter:
    """A position in a circuit and the failures before it. Methods return the level of the result of a gadget."""

    def __init__(self) -> None:
        self.constraints = 0
        self.failures: list[Failure] = []

    def skip(self, constraints: int) -> None:
        """Pass constraints that always hold."""
        self.constraints += constraints

    def hash(self, inputs: int, level: int = INPUT_LEVEL) -> int:
        """Pass the hash of ``inputs`` expressions, the highest of them at ``level``."""
        self.constraints += hash_constraints(inputs)
        return level + hash_depth(inputs)

    def hash_chain(self, count: int, level: int = INPUT_LEVEL) -> int:
        """Pass the chain of ``count`` expressions."""
        self.constraints += hash_constraints(2) * (count - 1)
        return level + hash_depth(2) * (count - 1)

    def hash_chain_of_pairs(self, count: int) -> int:
        """Pass the chain of ``count`` pairs of inputs."""
        self.constraints += hash_constraints(2) + hash_constraints(3) * (count - 1)
        return INPUT_LEVEL + hash_depth(2) + hash_depth(3) * (count - 1)

    def merkle_root(self, height: int, leaf: int, bits: int) -> int:
        """Pass the path from a leaf to the root: two choices, one level deep, and a hash per level of the tree."""
        self.constraints += height * (2 + hash_constraints(2))
        return max(leaf, bits) + height * (1 + hash_depth(2))

    def bits(self, size: int, *, holds: bool, path: str, reason: str) -> int:
        """Pass the decomposition of an input into bits, which fails unless it ``holds``."""
        if size == 1:  # the input is its own bit
            self._require(INPUT_LEVEL + 1, holds, path, reason)
            return INPUT_LEVEL
        self.constraints += size  # one boolean constraint per bit
        self._require(INPUT_LEVEL + 2, holds, path, reason)
        return INPUT_LEVEL + 1

    def less(self, *, holds: bool, path: str, reason: str) -> None:
        """Pass a comparison of two inputs."""
        self.bits(ADDRESS_BITS, holds=holds, path=path, reason=reason)

    def equal(self, level: int, *, holds: bool, path: str, reason: str) -> None:
        """Pass an equality of expressions, the highest of them at ``level``."""
        self._require(level + 1, holds, path, reason)

    def _require(self, level: int, holds: bool, path: str, reason: str) -> None:
        if not holds:
            self.failures.append(Failure(level, self.constraints, path, reason))
        self.constraints += 1


def hash_constraints(inputs: int) -> int:
    """Return the constraints of a Poseidon hash; in the first round the capacity element is constant."""
    return _FIFTH_POWER * (FULL_ROUNDS * (inputs + 1) + PARTIAL_ROUNDS[inputs - 1] - 1)


def hash_depth(inputs: int) -> int:
    """Return the levels from the inputs of a Poseidon hash to its result."""
    return _FIFTH_POWER * (FULL_ROUNDS + PARTIAL_ROUNDS[inputs - 1])
