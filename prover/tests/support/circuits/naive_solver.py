"""Compiled circuits solved term by term in Python integers, as their definition says."""

from __future__ import annotations

from golden_vectors import SCALAR_MODULUS

from prover.circuits.frontend.compiled import CompiledCircuit, Expression, HintCall, Row


class ConstraintBroken(Exception):
    """A constraint does not hold."""

    def __init__(self, constraint: int) -> None:
        super().__init__(f"constraint #{constraint} is not satisfied")
        self.constraint = constraint


def solve(circuit: CompiledCircuit, inputs: list[int]) -> list[int]:
    """Return the value of every wire for the public, then secret inputs; raise ConstraintBroken if there is none."""
    values: dict[int, int] = dict(enumerate([1, *inputs]))
    assert len(values) == len(circuit.public_names) + len(circuit.secret_names)
    hints = {number: name.rsplit(".", 1)[1].lower() for number, name in circuit.release.hints.items()}
    rows = 0
    for instruction in circuit.program():
        if isinstance(instruction, HintCall):
            (value,) = [_value(circuit, expression, values) for expression in instruction.inputs]
            for place, wire in enumerate(instruction.outputs):
                assert wire not in values
                if hints[instruction.hint_id] == "nbits":
                    values[wire] = value >> place & 1
                else:
                    values[wire] = pow(value, -1, SCALAR_MODULUS) if value else 0
        else:
            _solve_row(circuit, instruction, values, rows)
            rows += 1
    assert rows == circuit.constraints
    return [values[wire] for wire in range(circuit.wires)]


def _solve_row(circuit: CompiledCircuit, row: Row, values: dict[int, int], number: int) -> None:
    product = _value(circuit, row.left, values) * _value(circuit, row.right, values)
    unknown = [(coefficient, wire) for coefficient, wire in row.out if wire not in values]
    known = [term for term in row.out if term not in unknown]
    difference = (product - _value(circuit, known, values)) % SCALAR_MODULUS
    if unknown:
        ((coefficient, wire),) = unknown
        values[wire] = difference * pow(circuit.coefficients[coefficient], -1, SCALAR_MODULUS) % SCALAR_MODULUS
    elif difference:
        raise ConstraintBroken(number)


def _value(circuit: CompiledCircuit, expression: Expression, values: dict[int, int]) -> int:
    return sum(circuit.coefficients[number] * values[wire] for number, wire in expression) % SCALAR_MODULUS


def levels_by_definition(circuit: CompiledCircuit) -> list[int]:
    """Return the level of every instruction: 1 + the highest level that it reads, 0 if it reads inputs only."""
    inputs = len(circuit.public_names) + len(circuit.secret_names)
    level_of: dict[int, int] = {}
    levels = []
    for instruction in circuit.program():
        if isinstance(instruction, HintCall):
            expressions, outputs = instruction.inputs, instruction.outputs
        else:
            expressions, outputs = [instruction.left, instruction.right, instruction.out], range(0)
        wires = {wire for expression in expressions for _, wire in expression if wire >= inputs}
        level = 1 + max((level_of[wire] for wire in wires if wire in level_of), default=-1)
        for wire in (*wires, *outputs):
            level_of.setdefault(wire, level)
        levels.append(level)
    return levels
