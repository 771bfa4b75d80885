"""The constraint builder: emits exactly what the reference compiler emits, in its order.

Two habits of that compiler decide the shape of every key. The wire of a product is made before its constraint, and the
longer side of a constraint is stored second. Expressions known to be 0 or 1 are remembered and asserted only once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prover.circuits.frontend.expression import (
    ONE_WIRE,
    ZERO,
    Expression,
    Terms,
    constant_of,
    constant_terms,
    merged,
    scaled,
)
from prover.circuits.frontend.generation import GENERATION_014, Generation, Hint
from prover.circuits.frontend.repetition import Repeater
from prover.circuits.frontend.tape import Coefficients, Tape

ONE: Final = ((ONE_WIRE, 1),)


class UnsatisfiableConstant(ValueError):
    """A circuit asserts something false about constants."""


class Inputs:
    """Declares the public or the secret inputs of a system, in the order of their wires."""

    def __init__(self, system: ConstraintSystem, names: list[str], prefix: str = "") -> None:
        self._system = system
        self._names = names
        self._prefix = prefix

    def within(self, part: str) -> Inputs:
        """Inputs of a part of the circuit, whose names begin with the part's."""
        return Inputs(self._system, self._names, f"{self._prefix}{part}_")

    def scalar(self, name: str) -> Expression:
        """One input."""
        return self._system.declare(self._names, self._prefix + name)

    def vector(self, name: str, size: int) -> list[Expression]:
        """Inputs ``name_0`` and so on."""
        return [self.scalar(f"{name}_{index}") for index in range(size)]

    def matrix(self, name: str, rows: int, columns: int) -> list[list[Expression]]:
        """Inputs ``name_0_0``, ``name_0_1`` and so on, row by row."""
        return [self.vector(f"{name}_{index}", columns) for index in range(rows)]


class ConstraintSystem:
    """A constraint system under construction.

    ``repeat`` says whether gadgets are repeated by relocating what they emitted before (see `repetition`) or written
    anew each time; the result is the same. ``checkpoint`` is called at every gadget and may raise to stop the work.
    """

    def __init__(
        self,
        generation: Generation = GENERATION_014,
        *,
        repeat: bool = True,
        checkpoint: Callable[[], None] | None = None,
    ) -> None:
        self.generation = generation
        self.checkpoint = checkpoint or _go_on
        self.tape = Tape()
        self.coefficients = Coefficients()
        self.public_names = ["1"]
        self.secret_names: list[str] = []
        self.public = Inputs(self, self.public_names)
        self.secret = Inputs(self, self.secret_names)
        self.repeater = Repeater(self.tape) if repeat else None
        self._boolean: set[Terms] = set()
        self._made_boolean: list[Terms] = []

    # ---- wires -------------------------------------------------------------------------------

    def declare(self, names: list[str], name: str) -> Expression:
        """A new input; all public ones come first, then all secret ones, then everything else."""
        if names is self.public_names and self.secret_names:
            raise ValueError(f"public input {name} follows a secret one")
        if self.tape.wires != len(self.public_names) + len(self.secret_names):
            raise ValueError(f"input {name} follows a computed wire")
        names.append(name)
        return self._wire(self.tape.new_input())

    def constant(self, value: int) -> Expression:
        """A constant as an expression."""
        return Expression(self, constant_terms(value))

    def new_wire(self) -> Expression:
        """A wire that the next constraints determine."""
        return self._wire(self.tape.new_wires())

    def hint(self, hint: Hint, inputs: list[Expression], count: int) -> list[Expression]:
        """New wires with values from a hint."""
        first = self.tape.new_wires(count)
        converted = [self.coefficients.converted(expression.terms) for expression in inputs]
        self.tape.hint(hint.id, converted, range(first, first + count))
        return [self._wire(wire) for wire in range(first, first + count)]

    def _wire(self, number: int) -> Expression:
        return Expression(self, ((number, 1),))

    # ---- arithmetic --------------------------------------------------------------------------

    def total(self, *operands: Terms) -> Terms:
        """The sum; one that is too long for the generation is stored in a wire."""
        terms = merged(operands)
        if self.generation.most_terms is None or len(terms) < self.generation.most_terms:
            return terms
        wire = self.new_wire().terms
        self.constrain(terms, ONE, wire)
        return wire

    def product(self, left: Terms, right: Terms) -> Terms:
        """The product: a wire and a constraint, unless a factor is constant."""
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
        """The constraint left · right = out with the longer factor second."""
        converted = [self.coefficients.converted(terms) for terms in (left, right, out)]
        if len(left) > len(right):
            converted[:2] = converted[1::-1]
        self.tape.row(*converted)

    def assert_equal(self, left: Expression, right: Expression) -> None:
        """Left = right, stored as 1 · left = right; UnsatisfiableConstant if both are constants and differ."""
        if left.constant is not None and right.constant is not None:
            if left.constant != right.constant:
                raise UnsatisfiableConstant(f"{left.constant} is not {right.constant}")
            return
        left_side, right_side = self.coefficients.converted(left.terms), self.coefficients.converted(right.terms)
        self.tape.row([(1, ONE_WIRE)], left_side, right_side)

    def assert_boolean(self, value: Expression) -> None:
        """Value ∈ {0, 1}, stored as value · (1 - value) = 0 unless this very expression is known to be boolean."""
        if value.constant is not None:
            if value.constant not in (0, 1):
                raise UnsatisfiableConstant(f"{value.constant} is not a bit")
            return
        if self.repeater:
            self.repeater.boolean_asked(value.terms)
        if self.is_boolean(value.terms):
            return
        self.mark_boolean(value.terms)
        self.constrain(value.terms, (1 - value).terms, ZERO)

    # ---- what is known to be boolean ---------------------------------------------------------

    def is_boolean(self, terms: Terms) -> bool:
        """Whether this very expression is known to be 0 or 1."""
        return terms in self._boolean

    def mark_boolean(self, terms: Terms) -> None:
        """Remembers that an expression is 0 or 1."""
        self._boolean.add(terms)
        self._made_boolean.append(terms)

    @property
    def boolean_marks(self) -> int:
        """How many expressions have been marked."""
        return len(self._made_boolean)

    def boolean_since(self, count: int) -> list[Terms]:
        """The marks made after the first `count`."""
        return self._made_boolean[count:]


def _go_on() -> None:
    """Nobody asks to stop."""
