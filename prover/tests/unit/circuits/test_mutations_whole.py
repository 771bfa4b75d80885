"""Constraints inside whole circuits are needed: without any one of them, inputs pass that the circuit rejects.

Some rows of batches with two updates are not sampled. Inputs that pass without a row of the topmost hash of the first
new or the second old path would be a preimage of Poseidon, for these two meet in a root that is no input; the batches
of one show that such rows are needed. They also show it for the topmost bit of an index, on which the siblings depend
by which the two paths meet, and for the first index of an append, which is the second minus one.
"""

from __future__ import annotations

import functools
import io
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from constraint_system_hooks import FORMAT_014, ConstraintSystem, Hooks, Refused
from golden_vectors import SCALAR_MODULUS
from mutant_solver import Constraint, Hint, Program, Terms
from sampling import FULL

from prover.circuits.catalogue import compile_circuit
from prover.circuits.frontend.compiled import CompiledCircuit
from prover.circuits.output.gnark_014 import write_constraint_system
from shared.requests.circuit_id import CircuitId, CircuitKind

PRODUCTS_OF_A_HASH = 240
Given = dict[str, int]
"""Values of inputs by name; others are made up."""


@dataclass(frozen=True)
class Whole:
    """A circuit, the inputs that adapt, and inputs with a fault that one kind of constraint alone must notice.

    ``outside`` has such inputs for every decomposition into bits, None where there are none. ``meeting`` names the
    topmost siblings of two paths that meet at the root, the one of the earlier path first.
    """

    circuit: CircuitId
    opens: Sequence[str]
    given: Given
    outside: Sequence[Given | None]
    occupied: Given = field(default_factory=dict)
    meeting: tuple[str, str] | None = None
    samples: int = 24 if FULL else 8  # of each kind of constraint


def siblings(name: str, height: int) -> tuple[str, str]:
    """Return the topmost siblings of the first and second row of a matrix."""
    return f"{name}_0_{height - 1}", f"{name}_1_{height - 1}"


LOW, HIGH = {"LeafLowerRangeValues_0": 9}, {"LeafHigherRangeValues_0": 6}
BETWEEN = {"LeafLowerRangeValues_0": 5, "Values_0": 7, "LeafHigherRangeValues_0": 11}
SECRETS = ["PublicInputHash", "OldRoot", "NewRoot"]
WHOLE = [
    Whole(
        CircuitId(CircuitKind.INCLUSION, 1, (26,), (2,)),
        ["Roots_0", "Roots_1"],
        {"InPathIndices_0": 5, "InPathIndices_1": 9},
        [{"InPathIndices_0": 2**26 + 5}, {"InPathIndices_1": 2**26 + 9}],
        samples=5,
    ),
    Whole(
        CircuitId(CircuitKind.INCLUSION, 2, (3,), (2,)),
        ["PublicInputHash", "Roots_0", "Roots_1"],
        {"InPathIndices_0": 5, "InPathIndices_1": 2},
        [{"InPathIndices_0": 8}, {"InPathIndices_1": 9}],
    ),
    Whole(
        CircuitId(CircuitKind.NON_INCLUSION, 1, (3,), (1,)),
        ["Roots_0"],
        BETWEEN | {"InPathIndices_0": 5},
        [LOW, HIGH, {"InPathIndices_0": 8}],
    ),
    Whole(
        CircuitId(CircuitKind.NON_INCLUSION, 2, (3,), (1,)),
        ["PublicInputHash", "Roots_0"],
        BETWEEN | {"InPathIndices_0": 5},
        [LOW, HIGH, {"InPathIndices_0": 8}],
    ),
    Whole(
        CircuitId(CircuitKind.COMBINED, 2, (2, 3), (1, 1)),
        ["PublicInputHash", "Inclusion_Roots_0", "NonInclusion_Roots_0"],
        {f"NonInclusion_{name}": value for name, value in BETWEEN.items()}
        | {"Inclusion_InPathIndices_0": 1, "NonInclusion_InPathIndices_0": 5},
        [
            {"Inclusion_InPathIndices_0": 5},
            {"NonInclusion_LeafLowerRangeValues_0": 9},
            {"NonInclusion_LeafHigherRangeValues_0": 6},
            {"NonInclusion_InPathIndices_0": 8},
        ],
    ),
    Whole(
        CircuitId(CircuitKind.BATCH_APPEND, 2, (4,), (1,)),
        [*SECRETS, "LeavesHashchainHash"],
        {"StartIndex": 7, "OldLeaves_0": 0},
        [{"StartIndex": 16}],
        occupied={"OldLeaves_0": 9},
    ),
    Whole(
        CircuitId(CircuitKind.BATCH_APPEND, 2, (4,), (2,)),
        [*SECRETS, "LeavesHashchainHash"],
        {"StartIndex": 7, "OldLeaves_0": 0, "OldLeaves_1": 0},
        [None, {"StartIndex": 15}],
        occupied={"OldLeaves_0": 9, "OldLeaves_1": 9},
        meeting=siblings("MerkleProofs", 4),
    ),
    Whole(
        CircuitId(CircuitKind.BATCH_UPDATE, 2, (4,), (1,)),
        [*SECRETS, "LeavesHashchainHash"],
        {"PathIndices_0": 7},
        [{"PathIndices_0": 16}],
    ),
    Whole(
        CircuitId(CircuitKind.BATCH_UPDATE, 2, (4,), (2,)),
        [*SECRETS, "LeavesHashchainHash"],
        {"PathIndices_0": 7, "PathIndices_1": 8},
        [{"PathIndices_0": 16 + 7}, {"PathIndices_1": 16 + 8}],
        meeting=siblings("MerkleProofs", 4),
    ),
    Whole(
        CircuitId(CircuitKind.BATCH_ADDRESS_APPEND, 2, (2,), (1,)),
        [*SECRETS, "HashchainHash"],
        {
            "LowElementValues_0": 5,
            "NewElementValues_0": 7,
            "LowElementNextValues_0": 11,
            "LowElementIndices_0": 1,
            "StartIndex": 2,
        },
        [{"LowElementValues_0": 9}, {"LowElementNextValues_0": 6}, {"LowElementIndices_0": 4 + 1}, {"StartIndex": 6}],
        meeting=("LowElementProofs_0_1", "NewElementProofs_0_1"),
    ),
]


class Mutants:
    """Everything that the mutants of one circuit share."""

    def __init__(self, whole: Whole) -> None:
        self.whole = whole
        self.compiled = compile_circuit(whole.circuit)
        names = [*self.compiled.public_names, *self.compiled.secret_names]
        self.wires = {name: wire for wire, name in enumerate(names)}
        opens = {self.wires[name] for name in whole.opens}
        plain = Program(self.compiled, opens)
        self.skipped: set[int] = set()
        bound = self._bindings(plain) if whole.meeting else {}
        self.program = Program(self.compiled, opens, bound)
        self.decomposition_of = self._decompositions()

    def _bindings(self, program: Program) -> dict[int, Terms]:
        """Return the topmost siblings of paths that meet at the root: each is what the other path computes there."""
        assert self.whole.meeting
        first, second = (self.wires[name] for name in self.whole.meeting)
        # A sibling is chosen from in two rows on the way from the old leaf, and in two from the new one.
        new_path, old_path = self._choices(program, first)[2], self._choices(program, second)[0]
        for start in (new_path, old_path):
            self.skipped.update(range(start, start + 2 + PRODUCTS_OF_A_HASH))
        return {
            second: self._node(program.constraints[new_path], first),
            first: self._node(program.constraints[old_path], second),
        }

    def _choices(self, program: Program, sibling: int) -> list[int]:
        """Return the rows that choose between a sibling and a node; other rows that read it add round constants."""
        rows = [
            number
            for number, row in enumerate(program.constraints)
            if row.kind == "product" and any(wire == sibling for wire, _ in row.right) and all(w for w, _ in row.right)
        ]
        assert len(rows) == 4
        return rows

    def _node(self, choice: Constraint, sibling: int) -> Terms:
        """Return the node of a choice, which multiplies the bit by sibling - node."""
        return [(wire, SCALAR_MODULUS - factor) for wire, factor in choice.right if wire != sibling]

    def _decompositions(self) -> dict[int, int]:
        """Return the number of the decomposition to which a constraint about bits belongs."""
        found: dict[int, int] = {}
        number, constraint, outputs = -1, 0, range(0)
        for step in self.program.steps:
            if isinstance(step, Hint):
                if step.is_bits:
                    number, outputs = number + 1, step.outputs
                continue
            is_bit = step.kind == "boolean" and step.left[0][0] in outputs
            if is_bit or step.kind == "recomposition":
                found[constraint] = number
                last_bit = outputs[-1]
                if self.whole.meeting and is_bit and step.left[0][0] == last_bit and len(outputs) < 200:
                    self.skipped.add(constraint)
            constraint += 1
        assert number + 1 == len(self.whole.outside)
        for place, decomposition in found.items():
            if self.whole.outside[decomposition] is None:
                self.skipped.add(place)
        return found

    def inputs_for(self, number: int) -> list[int]:
        """Return inputs with the fault that a constraint must notice."""
        given = dict(self.whole.given)
        if number in self.decomposition_of:
            given |= self.whole.outside[self.decomposition_of[number]] or {}
        elif self.program.constraints[number].kind == "vanishing":
            given |= self.whole.occupied
        return [given.get(name, 1000 + wire) for name, wire in self.wires.items() if wire]

    def sample(self) -> list[int]:
        """Return numbers of constraints of every kind."""
        chosen: list[int] = []
        kinds = {row.kind for row in self.program.constraints}
        choose = random.Random(str(self.whole.circuit))
        for kind in sorted(kinds):
            rows = [n for n, row in enumerate(self.program.constraints) if row.kind == kind and n not in self.skipped]
            chosen += choose.sample(rows, min(len(rows), self.whole.samples))
        return chosen


def is_rejected(solver: ConstraintSystem, wires: list[int], compiled: CompiledCircuit) -> bool:
    count = len(compiled.public_names) + len(compiled.secret_names)
    try:
        solver.solve(wires[1:count])
    except Refused:
        return True
    return False


@functools.cache
def solver_of(hooks: Hooks, circuit: CircuitId) -> ConstraintSystem:
    file = io.BytesIO()
    write_constraint_system(compile_circuit(circuit), file)
    return hooks.read(file.getvalue(), FORMAT_014)


@pytest.mark.unchecked
@pytest.mark.parametrize("whole", WHOLE, ids=lambda whole: str(whole.circuit))
@pytest.mark.sampled(5)
def test_circuit__without_any_one_constraint__accepts_what_it_rejects(whole: Whole, testing_library: Path) -> None:
    mutants, solver = Mutants(whole), solver_of(Hooks(testing_library), whole.circuit)
    program = mutants.program
    sample = mutants.sample()
    for number in sample:
        dropped = program.constraints[number]
        wires = program.wires_without(dropped, mutants.inputs_for(number))
        assert is_rejected(solver, wires, mutants.compiled), (number, dropped.kind)
    kinds = {program.constraints[number].kind for number in sample}
    assert {"product", "boolean", "recomposition", "result"} <= kinds
    assert ("vanishing" in kinds) == bool(whole.occupied)
    assert ("link" in kinds) == bool(whole.meeting)
