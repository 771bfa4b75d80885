"""Every constraint is needed: without it, inputs pass that the circuit rejects.

Of each gadget at least 200 constraints are dropped, one at a time; test_mutations_whole.py does the same
inside circuits. No constraint of gnark 0.14 is redundant. In gnark 0.8 one is: the result of is_zero is
asserted to be boolean when it chooses, although its own two constraints leave no other value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from gnark_08_system import GNARK_08
from golden_vectors import SCALAR_MODULUS
from mutant_solver import Program
from naive_solver import ConstraintBroken, solve
from sampling import FULL

from prover.circuits.frontend.compiled import CompiledCircuit
from prover.circuits.frontend.gnark_release import GNARK_014, GnarkRelease
from prover.circuits.frontend.system import ConstraintSystem, Expression
from prover.circuits.gadgets.bits import assert_less, to_bits
from prover.circuits.gadgets.choice import is_zero, select
from prover.circuits.gadgets.hash_chain import hash_chain, hash_chain_of_pairs
from prover.circuits.gadgets.merkle import merkle_root, merkle_update
from prover.circuits.gadgets.poseidon import poseidon

SAMPLE = 200 if FULL else 70
Define = Callable[[ConstraintSystem, list[Expression]], list[Expression]]


@dataclass(frozen=True)
class Case:
    """A gadget over given inputs, whose results become open inputs.

    ``inputs`` satisfy the circuit. ``wrong`` are inputs that it rejects, by the kind of the constraint that must do so.
    ``opens_first`` says that the first input is a result, too.
    """

    name: str
    define: Define
    results: int
    inputs: list[int]
    wrong: dict[str, list[int]] = field(default_factory=dict)
    opens_first: bool = False

    def program(self, release: GnarkRelease = GNARK_014) -> Program:
        """Return the compiled case."""
        system = ConstraintSystem(release)
        given = [system.declare(system.secret_names, f"Given_{index}") for index in range(len(self.inputs))]
        results = [system.declare(system.secret_names, f"Result_{index}") for index in range(self.results)]
        for made, result in zip(self.define(system, given), results, strict=True):
            system.assert_equal(made, result)
        first = 1 + len(self.inputs)
        open_inputs = {*range(first, first + self.results), *([1] if self.opens_first else [])}
        return Program(CompiledCircuit.of(system), open_inputs)


def hashing(count: int) -> Define:
    return lambda _, given: [poseidon(*given[at : at + count]) for at in range(0, len(given), count)]


def choosing(_: ConstraintSystem, given: list[Expression]) -> list[Expression]:
    return [select(*given[at : at + 3]) for at in range(0, len(given), 3)]


def zero_testing(_: ConstraintSystem, given: list[Expression]) -> list[Expression]:
    return [is_zero(value) for value in given]


def decomposing(_: ConstraintSystem, given: list[Expression]) -> list[Expression]:
    to_bits(given[0], 210)
    return []


def comparing(_: ConstraintSystem, given: list[Expression]) -> list[Expression]:
    assert_less(*given)
    return []


def climbing(_: ConstraintSystem, given: list[Expression]) -> list[Expression]:
    leaf, index, *siblings = given
    return [merkle_root(leaf, to_bits(index, len(siblings)), siblings)]


def updating(_: ConstraintSystem, given: list[Expression]) -> list[Expression]:
    old_root, old_leaf, new_leaf, index, *siblings = given
    return [merkle_update(old_root, old_leaf, new_leaf, to_bits(index, len(siblings)), siblings)]


def filling(system: ConstraintSystem, given: list[Expression]) -> list[Expression]:
    old_root, new_leaf, index, *siblings = given
    empty = system.constant(0)
    return [merkle_update(old_root, empty, new_leaf, to_bits(index, len(siblings)), siblings)]


def chaining(_: ConstraintSystem, given: list[Expression]) -> list[Expression]:
    return [hash_chain(given), hash_chain_of_pairs(given[::2], given[1::2])]


def out_of_range(*inputs: int) -> dict[str, list[int]]:
    """Return inputs whose number does not fit into its bits, for the constraints that must notice."""
    return {"boolean": list(inputs), "recomposition": list(inputs)}


COPIES = 70
BIT_AND_CHOICES = [value for copy in range(COPIES) for value in (copy % 2, 100 + copy, 300 + copy)]
CASES = [
    Case("poseidon of 1", hashing(1), 1, [5]),
    Case("poseidon of 2", hashing(2), 1, [5, 7]),
    Case("poseidon of 3", hashing(3), 1, [5, 7, 11]),
    Case("select", choosing, COPIES, BIT_AND_CHOICES),
    Case(
        "is_zero",
        zero_testing,
        COPIES,
        [copy % 3 for copy in range(COPIES)],
        {"product": [0] * COPIES, "vanishing": [9] * COPIES},
    ),
    Case("bits", decomposing, 0, [12345], out_of_range(2**210 + 3)),
    Case("less", comparing, 0, [6, 7], out_of_range(7, 6)),
    Case(
        "merkle root",
        climbing,
        1,
        [77, 0b10, 88, 99],
        out_of_range(77, 0b101, 88, 99),
    ),
    Case("merkle update", updating, 1, [0, 7, 77, 0, 88], out_of_range(0, 7, 77, 2, 88), opens_first=True),
    Case("update of an empty slot", filling, 1, [0, 77, 0, 88], out_of_range(0, 77, 2, 88), opens_first=True),
    Case("hash chain", chaining, 2, [3, 4, 5, 6]),
]


def is_rejected(program: Program, wires: list[int]) -> bool:
    circuit = program.circuit
    inputs = wires[1 : len(circuit.public_names) + len(circuit.secret_names)]
    try:
        solve(circuit, inputs)
    except ConstraintBroken:
        return True
    return False


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_gadget__without_any_one_constraint__accepts_what_the_circuit_rejects(case: Case) -> None:
    program = case.program()
    constraints = program.constraints
    assert len(constraints) >= SAMPLE
    sample = range(0, len(constraints), len(constraints) // SAMPLE)
    assert len(sample) >= SAMPLE
    open_values = [0] * case.results
    for number in sample:
        dropped = constraints[number]
        inputs = case.wrong.get(dropped.kind, case.inputs)
        wires = program.wires_without(dropped, [*inputs, *open_values])
        assert is_rejected(program, wires), (number, dropped.kind)


def test_boolean_of_is_zero__in_gnark_08__is_redundant() -> None:
    system = ConstraintSystem(GNARK_08)
    given = [system.declare(system.secret_names, f"Given_{index}") for index in range(3)]
    bit = is_zero(given[0])
    select(bit, given[1], given[2])
    rows = Program(CompiledCircuit.of(system), set()).constraints
    assert [row.kind for row in rows] == ["product", "vanishing", "boolean", "product"]
    # a·m = 0 and -a·x = m - 1: either a is 0 and m is 1, or m is 0.
    for a in (0, 1, 5, SCALAR_MODULUS - 1):
        for m in (0, 1, 2, SCALAR_MODULUS - 1):
            solvable = a * m % SCALAR_MODULUS == 0 and (a != 0 or m == 1)
            assert not solvable or m in (0, 1)
