"""Construction of constraint systems: exactly the instructions of the reference compiler, in its order.

Two properties of that compiler determine the layout of every key. The wire of a product is created before its
constraint. The longer factor of a constraint is stored second. An expression known to be 0 or 1 is asserted once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prover.circuits.frontend.boolean_expressions import BooleanExpressions
from prover.circuits.frontend.gnark_release import GNARK_014, GnarkRelease, Hint
from prover.circuits.frontend.instructions import Coefficients, InstructionList
from prover.circuits.frontend.repeater import Repeater
from prover.circuits.frontend.terms import ONE_WIRE, ZERO, Terms, constant_of, constant_terms, merged, scaled

ONE: Final = ((ONE_WIRE, 1),)


class UnsatisfiableConstant(ValueError):
    """A circuit asserts something false about constants."""


class Expression:
    """A linear expression of a system; ``+``, ``-`` and ``*`` take expressions and integers.

    Adding and scaling emit nothing. A product is a new wire and a constraint, unless a factor is constant.
    """

    __slots__ = ("system", "terms")

    def __init__(self, system: ConstraintSystem, terms: Terms) -> None:
        self.system = system
        self.terms = terms

    @property
    def constant(self) -> int | None:
        """Value of a constant expression, None for others."""
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
            raise ValueError("the operands belong to two systems")
        return other.terms

    def __repr__(self) -> str:
        return " + ".join(f"{coefficient}·w{wire}" for wire, coefficient in self.terms)


class ConstraintSystem:
    """A constraint system under construction.

    With ``repeat`` equal calls of a gadget are relocated copies of the first (see ``gadget``); without it each call
    runs the gadget. The result is the same. ``checkpoint`` is called at every gadget and may raise to stop the work.
    """

    def __init__(
        self,
        release: GnarkRelease = GNARK_014,
        *,
        repeat: bool = True,
        checkpoint: Callable[[], None] | None = None,
    ) -> None:
        self.release = release
        self.checkpoint = checkpoint or _never_stop
        self.instructions = InstructionList()
        self.coefficients = Coefficients()
        self.public_names = ["1"]
        self.secret_names: list[str] = []
        self._booleans = BooleanExpressions()
        self.repeater = Repeater(self.instructions, self._booleans) if repeat else None

    # ---- wires -------------------------------------------------------------------------------

    def declare(self, names: list[str], name: str) -> Expression:
        """Append an input to ``public_names`` or ``secret_names``.

        Raises ValueError unless public ones come first, then secret ones, then other wires.
        """
        if names is self.public_names and self.secret_names:
            raise ValueError(f"public input {name} follows a secret one")
        if self.instructions.wires != len(self.public_names) + len(self.secret_names):
            raise ValueError(f"input {name} follows a computed wire")
        names.append(name)
        return self._wire(self.instructions.new_input())

    def constant(self, value: int) -> Expression:
        """Return a constant as an expression."""
        return Expression(self, constant_terms(value))

    def new_wire(self) -> Expression:
        """Append a wire that the next constraints determine."""
        return self._wire(self.instructions.new_wires())

    def hint(self, hint: Hint, inputs: list[Expression], count: int) -> list[Expression]:
        """Append wires whose values a hint computes."""
        first = self.instructions.new_wires(count)
        converted = [self.coefficients.converted(expression.terms) for expression in inputs]
        self.instructions.hint(hint.id, converted, range(first, first + count))
        return [self._wire(wire) for wire in range(first, first + count)]

    def _wire(self, number: int) -> Expression:
        return Expression(self, ((number, 1),))

    # ---- arithmetic --------------------------------------------------------------------------

    def total(self, *operands: Terms) -> Terms:
        """Return the sum; one that is too long for the compiler release is stored in a wire."""
        terms = merged(operands)
        if self.release.maximum_terms is None or len(terms) < self.release.maximum_terms:
            return terms
        wire = self.new_wire().terms
        self.constrain(terms, ONE, wire)
        return wire

    def product(self, left: Terms, right: Terms) -> Terms:
        """Return the product: a wire and a constraint, unless a factor is constant."""
        left_value, right_value = constant_of(left), constant_of(right)
        if left_value is not None:
            return scaled(right, left_value) if right_value is None else constant_terms(left_value * right_value)
        if right_value is not None:
            return scaled(left, right_value)
        wire = self.new_wire().terms
        self.constrain(left, right, wire)
        return wire

    # ---- constraints -------------------------------------------------------------------------

    def constrain(self, left: Terms, right: Terms, out: Terms) -> None:
        """Append the constraint left · right = out with the longer factor second."""
        converted = [self.coefficients.converted(terms) for terms in (left, right, out)]
        if len(left) > len(right):
            converted[:2] = converted[1::-1]
        self.instructions.row(*converted)

    def assert_equal(self, left: Expression, right: Expression) -> None:
        """Append left = right as 1 · left = right. Raises UnsatisfiableConstant if both are constants and differ."""
        if left.constant is not None and right.constant is not None:
            if left.constant != right.constant:
                raise UnsatisfiableConstant(f"{left.constant} is not {right.constant}")
            return
        left_side, right_side = self.coefficients.converted(left.terms), self.coefficients.converted(right.terms)
        self.instructions.row([(1, ONE_WIRE)], left_side, right_side)

    def assert_boolean(self, value: Expression) -> None:
        """Append value ∈ {0, 1} as value · (1 - value) = 0 unless this very expression is known to be boolean."""
        if value.constant is not None:
            if value.constant not in (0, 1):
                raise UnsatisfiableConstant(f"{value.constant} is not a bit")
            return
        if self.repeater:
            self.repeater.note_assertion(value.terms)
        if self.is_boolean(value.terms):
            return
        self.mark_boolean(value.terms)
        self.constrain(value.terms, (1 - value).terms, ZERO)

    # ---- boolean expressions -----------------------------------------------------------------

    def is_boolean(self, terms: Terms) -> bool:
        """Return True if this very expression is known to be 0 or 1."""
        return terms in self._booleans

    def mark_boolean(self, terms: Terms) -> None:
        """Record that an expression is 0 or 1."""
        self._booleans.add(terms)


def _never_stop() -> None:
    """Continue at every checkpoint."""
