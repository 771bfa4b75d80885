"""Linear expressions over wires: what a circuit computes with.

An expression is a list of terms (wire, coefficient), ascending by wire, each wire once; wire 0 always holds 1, so a
constant is a term on it, and zero is the single term (0, 0). Adding and scaling cost nothing; a product of two
expressions becomes a wire and a constraint of the system to which both belong.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from shared.field import SCALAR_MODULUS

if TYPE_CHECKING:
    from prover.circuits.frontend.system import ConstraintSystem

Terms = tuple[tuple[int, int], ...]
"""Pairs (wire, coefficient in [0, r)), ascending by wire."""

ONE_WIRE: Final = 0
ZERO: Final[Terms] = ((ONE_WIRE, 0),)


class Expression:
    """A linear expression of a system; ``+``, ``-`` and ``*`` take expressions and integers."""

    __slots__ = ("system", "terms")

    def __init__(self, system: ConstraintSystem, terms: Terms) -> None:
        self.system = system
        self.terms = terms

    @property
    def constant(self) -> int | None:
        """The value, where no wire is needed to know it."""
        return constant_of(self.terms)

    def __add__(self, other: Expression | int) -> Expression:
        return Expression(self.system, self.system.total(self.terms, self._terms_of(other)))

    __radd__ = __add__

    def __sub__(self, other: Expression | int) -> Expression:
        return Expression(self.system, self.system.total(self.terms, scaled(self._terms_of(other), -1)))

    def __rsub__(self, other: int) -> Expression:
        return Expression(self.system, self.system.total(constant_terms(other), scaled(self.terms, -1)))

    def __neg__(self) -> Expression:
        return Expression(self.system, scaled(self.terms, -1))

    def __mul__(self, other: Expression | int) -> Expression:
        return Expression(self.system, self.system.product(self.terms, self._terms_of(other)))

    __rmul__ = __mul__

    def _terms_of(self, other: Expression | int) -> Terms:
        if isinstance(other, int):
            return constant_terms(other)
        if other.system is not self.system:
            raise ValueError("expressions of two systems do not mix")
        return other.terms

    def __repr__(self) -> str:
        return " + ".join(f"{coefficient}·w{wire}" for wire, coefficient in self.terms)


def constant_terms(value: int) -> Terms:
    """The expression of a constant."""
    return ((ONE_WIRE, value % SCALAR_MODULUS),)


def constant_of(terms: Terms) -> int | None:
    """The value of an expression that no wire can change, None for others."""
    if len(terms) == 1 and (terms[0][0] == ONE_WIRE or terms[0][1] == 0):
        return terms[0][1]
    return 0 if all(coefficient == 0 for _, coefficient in terms) else None


def scaled(terms: Terms, factor: int) -> Terms:
    """An expression times a constant, terms in the same order."""
    factor %= SCALAR_MODULUS
    if factor == 0:
        return ZERO
    return tuple((wire, coefficient * factor % SCALAR_MODULUS) for wire, coefficient in terms)


def merged(operands: Iterable[Terms]) -> Terms:
    """The sum of expressions: terms that cancel vanish, and zero remains if all do."""
    totals: dict[int, int] = {}
    for terms in operands:
        for wire, coefficient in terms:
            totals[wire] = totals.get(wire, 0) + coefficient
    reduced = ((wire, totals[wire] % SCALAR_MODULUS) for wire in sorted(totals))
    return tuple(term for term in reduced if term[1]) or ZERO
