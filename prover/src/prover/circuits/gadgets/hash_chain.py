"""Hash chains: one hash of many values."""

from __future__ import annotations

from prover.circuits.frontend.system import Expression
from prover.circuits.gadgets.poseidon import poseidon


def hash_chain(values: list[Expression]) -> Expression:
    """Return H(H(a, b), c) and so on for at least one value; a single value is its own chain."""
    chain = values[0]
    for value in values[1:]:
        chain = poseidon(chain, value)
    return chain


def hash_chain_of_pairs(firsts: list[Expression], seconds: list[Expression]) -> Expression:
    """Return H(H(a₀, b₀), a₁, b₁) and so on for at least one pair."""
    chain = poseidon(firsts[0], seconds[0])
    for first, second in zip(firsts[1:], seconds[1:], strict=True):
        chain = poseidon(chain, first, second)
    return chain
