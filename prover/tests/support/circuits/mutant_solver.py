"""Witnesses that break one constraint of a circuit and satisfy all others.

Some inputs of a circuit under test are asserted equal to something that it computes, roots for instance. Such an input
is left open and takes the value that its equality demands, so that an error made at the dropped constraint reaches an
input that the complete circuit must then reject. A bound input takes the value of an expression that no constraint ties
to it, such as the sibling that another path of the same tree computes.
"""

from __future__ import annotations

from dataclasses import dataclass

from golden_vectors import SCALAR_MODULUS

from prover.circuits.frontend.compiled import CompiledCircuit, Expression, HintCall, Row

Terms = list[tuple[int, int]]
"""Pairs (wire, coefficient)."""


@dataclass(frozen=True)
class Constraint:
    """A constraint with coefficient values. `kind` says what it is for."""

    left: Terms
    right: Terms
    out: Terms
    kind: str
    defines: int | None


@dataclass(frozen=True)
class Hint:
    """A call of a hint; `is_bits` selects its function."""

    is_bits: bool
    value: Terms
    outputs: range


class Program:
    """The instructions of a circuit, read once."""

    def __init__(
        self, circuit: CompiledCircuit, open_inputs: set[int], bound_inputs: dict[int, Terms] | None = None
    ) -> None:
        self.circuit = circuit
        self.bound_inputs = bound_inputs or {}
        self.open_inputs = open_inputs
        self.steps: list[Constraint | Hint] = []
        self.constraints: list[Constraint] = []
        self.hinted: set[int] = set()
        known = set(range(len(circuit.public_names) + len(circuit.secret_names)))
        for instruction in circuit.program():
            if isinstance(instruction, HintCall):
                is_bits = instruction.hint_id == circuit.release.bits.id
                self.steps.append(Hint(is_bits, self._valued(instruction.inputs[0]), instruction.outputs))
                known.update(instruction.outputs)
                self.hinted.update(instruction.outputs if is_bits else ())
            else:
                constraint = self._constraint(instruction, known)
                known.update([] if constraint.defines is None else [constraint.defines])
                self.steps.append(constraint)
                self.constraints.append(constraint)

    def _valued(self, expression: Expression) -> Terms:
        return [(wire, self.circuit.coefficients[number]) for number, wire in expression]

    def _constraint(self, row: Row, known: set[int]) -> Constraint:
        left, right, out = self._valued(row.left), self._valued(row.right), self._valued(row.out)
        new = [wire for wire, _ in out if wire not in known]
        complement = [(0, 1), *((wire, SCALAR_MODULUS - factor) for wire, factor in left)]
        if new:
            kind = "product"
        elif out == [(0, 0)]:
            kind = "boolean" if right == complement else "vanishing"
        elif any(wire in self.open_inputs for wire, _ in right + out):
            kind = "result"
        elif any(wire in self.hinted for wire, _ in right):
            kind = "recomposition"
        else:
            kind = "link"
        return Constraint(left, right, out, kind, new[0] if new else None)

    def wires_without(self, dropped: Constraint, inputs: list[int]) -> list[int]:
        """Return an assignment that satisfies all constraints but one, with the open and bound inputs set to fit."""
        values: dict[int, int] = {
            wire: value
            for wire, value in enumerate([1, *inputs])
            if wire not in self.open_inputs and wire not in self.bound_inputs
        }
        if dropped.kind == "boolean" and dropped.left[0][0] in values:
            values[dropped.left[0][0]] = 2  # an input that should be a bit
        pending: list[Constraint | Hint] = self.steps
        while pending:
            waiting = [step for step in pending if not self._run(step, dropped, values)]
            bound = self._fill(dropped, values)
            assert bound or len(waiting) < len(pending), "open inputs wait for each other"
            pending = waiting
        return [values[wire] for wire in range(self.circuit.wires)]

    def _run(self, step: Constraint | Hint, dropped: Constraint, values: dict[int, int]) -> bool:
        """Execute a step unless something that it reads has no value yet."""
        try:
            if isinstance(step, Hint):
                self._call(step, dropped, values)
            elif step.kind == "result":
                self._bind(step, values, error=int(step is dropped))
            else:
                self._satisfy(step, values, is_dropped=step is dropped)
        except KeyError:
            return False
        return True

    def _fill(self, dropped: Constraint, values: dict[int, int]) -> int:
        """Assign values to bound inputs; return how many got one."""
        known = len(values)
        for wire, terms in self.bound_inputs.items():
            if wire not in values and all(read in values for read, _ in terms):
                values[wire] = (_sum(terms, values) + (dropped.kind == "link")) % SCALAR_MODULUS
        return len(values) - known

    def _call(self, hint: Hint, dropped: Constraint, values: dict[int, int]) -> None:
        value = _sum(hint.value, values)
        if not hint.is_bits:
            # Without the constraint that makes it vanish, the inverse of a number may be claimed to be 0.
            is_forged = dropped.kind == "vanishing" and dropped.left == hint.value
            values[hint.outputs.start] = pow(value, -1, SCALAR_MODULUS) if value and not is_forged else 0
            return
        for place, wire in enumerate(hint.outputs):
            values[wire] = value >> place & 1
        forged = dropped.left[0][0]
        if dropped.kind == "boolean" and forged in hint.outputs:
            # One number that need not be a bit takes whatever the others leave.
            place = forged - hint.outputs.start
            rest = sum(values[wire] << i for i, wire in enumerate(hint.outputs) if wire != forged)
            values[forged] = (value - rest) * pow(1 << place, -1, SCALAR_MODULUS) % SCALAR_MODULUS

    def _bind(self, step: Constraint, values: dict[int, int], error: int) -> None:
        for side, other in ((step.out, step.right), (step.right, step.out)):
            if len(side) == 1 and side[0][0] in self.open_inputs:
                values[side[0][0]] = (_sum(other, values) + error) % SCALAR_MODULUS
                return
        raise AssertionError("a result must be an input of its own")

    def _satisfy(self, step: Constraint, values: dict[int, int], *, is_dropped: bool) -> None:
        product = _sum(step.left, values) * _sum(step.right, values)
        if step.defines is not None:
            known = [(wire, factor) for wire, factor in step.out if wire != step.defines]
            values[step.defines] = (product - _sum(known, values) + is_dropped) % SCALAR_MODULUS
        elif not is_dropped:
            assert (product - _sum(step.out, values)) % SCALAR_MODULUS == 0, step.kind


def _sum(terms: Terms, values: dict[int, int]) -> int:
    return sum(factor * values[wire] for wire, factor in terms) % SCALAR_MODULUS
