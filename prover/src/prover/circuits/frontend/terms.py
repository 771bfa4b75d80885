"""Terms of linear expressions over wires.

An expression is a list of terms (wire, coefficient), ascending by wire, each wire once. Wire 0 always holds 1, so a
constant is a term on it, and zero is the single term (0, 0).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from shared.trees.field import SCALAR_MODULUS

Terms = tuple[tuple[int, int], ...]
"""Pairs (wire, coefficient in [0, r)), ascending by wire."""

ONE_WIRE: Final = 0
ZERO: Final[Terms] = ((ONE_WIRE, 0),)


def constant_terms(value: int) -> Terms:
    """Return the terms of a constant."""
    return ((ONE_WIRE, value % SCALAR_MODULUS),)


def constant_of(terms: Terms) -> int | None:
    """Return the value of an expression that has no wire but the constant one, None for others."""
    if len(terms) == 1 and (terms[0][0] == ONE_WIRE or terms[0][1] == 0):
        return terms[0][1]
    return 0 if all(coefficient == 0 for _, coefficient in terms) else None


def scaled(terms: Terms, factor: int) -> Terms:
    """Return an expression times a constant, with terms in the same order."""
    factor %= SCALAR_MODULUS
    if factor == 0:
        return ZERO
    return tuple((wire, coefficient * factor % SCALAR_MODULUS) for wire, coefficient in terms)


def merged(operands: Iterable[Terms]) -> Terms:
    """Return the sum of expressions without the terms that cancel; zero if all do."""
    totals: dict[int, int] = {}
    for terms in operands:
        for wire, coefficient in terms:
            totals[wire] = totals.get(wire, 0) + coefficient
    reduced = ((wire, totals[wire] % SCALAR_MODULUS) for wire in sorted(totals))
    return tuple(term for term in reduced if term[1]) or ZERO
