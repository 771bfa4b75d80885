"""Short sums of expressions: the solver's values compared with the sums of the file, and unchanged expressions."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from circuit_inputs import KEY_FILES
from constraint_system_hooks import FORMAT_014, FORMAT_08, ConstraintSystem, Hooks
from gnark_conversion import Expression
from golden_vectors import SCALAR_MODULUS
from kernel_library import BACKENDS
from small_systems import System

BATCH_FILES = ("append-with-proofs_32_10.key", "update_32_10.key", "address-append_40_10.key")
ROUNDS = 24
Line = dict[int, int]
"""A linear combination: coefficients by wire, 0 is the constant one."""


@pytest.fixture(scope="module")
def hooks(testing_library: Path) -> Hooks:
    return Hooks(testing_library)


def samples(cs: ConstraintSystem) -> list[list[int]]:
    """Return inputs that satisfy nothing in particular."""
    count = cs.counts.public - 1 + cs.counts.secret
    draw = random.Random(count)
    return [
        [draw.randrange(SCALAR_MODULUS) for _ in range(count)],
        [draw.choice((0, 1, SCALAR_MODULUS - 1)) for _ in range(count)],
        [0] * count,
    ]


CHECKED = ("inclusion_32_1.key", "mainnet_inclusion_26_1.key", "non-inclusion_40_1.key", "combined_26_1_1.key")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in CHECKED else pytest.mark.unchecked) for name in sorted(KEY_FILES.values())],
)
@pytest.mark.sampled(9, checked=2)
def test_short_forms__published_key_and_any_inputs__change_no_row(
    hooks: Hooks, reference_keys_dir: Path, name: str
) -> None:
    cs = hooks.read_key(reference_keys_dir / name)
    assert cs.short_terms * 3 < cs.counts.terms
    drawn, *others = samples(cs)
    for backend in BACKENDS:
        assert cs.differing_rows(drawn, backend, threads=2) == 0
    for inputs in others:
        assert cs.differing_rows(inputs, BACKENDS[-1]) == 0


@pytest.mark.reference_batch_keys
@pytest.mark.parametrize("name", BATCH_FILES)
@pytest.mark.sampled(1)
def test_short_forms__batch_key_and_any_inputs__change_no_row(
    hooks: Hooks, reference_batch_keys_dir: Path, name: str
) -> None:
    cs = hooks.read_key(reference_batch_keys_dir / name)
    assert cs.short_terms * 3 < cs.counts.terms
    inputs = samples(cs)[0]
    assert cs.differing_rows(inputs, BACKENDS[-1], threads=2) == 0


def scaled_sum(terms: list[tuple[int, Line]]) -> Line:
    """Return the sum of lines with factors."""
    total: Line = {}
    for factor, line in terms:
        for wire, coefficient in line.items():
            total[wire] = (total.get(wire, 0) + factor * coefficient) % SCALAR_MODULUS
    return {wire: coefficient for wire, coefficient in total.items() if coefficient}


class Rounds:
    """Rounds as in a Poseidon permutation: the first lane is squared into a wire, then all lanes are mixed."""

    def __init__(self, width: int, seed: int) -> None:
        draw = random.Random(seed)
        self.system = System(public=0, secret=width)
        self.matrix = [[draw.randrange(SCALAR_MODULUS) for _ in range(width)] for _ in range(width)]
        self.constants = [[draw.randrange(SCALAR_MODULUS) for _ in range(width)] for _ in range(ROUNDS)]
        self.lanes: list[Line] = [scaled_sum([(x, {1 + i: 1}) for i, x in enumerate(row)]) for row in self.matrix]

    def expression(self, line: Line) -> Expression:
        return [(self.system.coefficient(line[wire]), wire) for wire in sorted(line)]

    def next_round(self, constants: list[int], *, spoil: str = "") -> None:
        side = self.expression(self.lanes[0])
        if spoil == "coefficient":
            side[1] = (self.system.coefficient(12345), side[1][1])
        elif spoil == "order":
            side.reverse()
        elif spoil == "repeated wire":
            side.append(side[-1])
        wire = self.system.new_wire()
        self.system.row(side, side, [(1, wire)])
        mixed: list[Line] = [{wire: 1}, *self.lanes[1:]]
        self.lanes = [
            scaled_sum([*zip(row, mixed, strict=True), (constant, {0: 1})])
            for row, constant in zip(self.matrix, constants, strict=True)
        ]


def assert_solved_as_by_python(hooks: Hooks, system: System, inputs: list[int]) -> list[ConstraintSystem]:
    """Return the systems as both format versions state them."""
    expected = [b"".join(value.to_bytes(32, "big") for value in column) for column in system.solve(inputs)]
    read = [hooks.read(system.encode(format_version), format_version) for format_version in (FORMAT_08, FORMAT_014)]
    for cs in read:
        for backend in BACKENDS:
            solution = cs.solve(inputs, backend)
            assert [solution.wires, solution.a, solution.b, solution.c] == expected
    return read


@pytest.mark.parametrize("width", [2, 3, 4])
def test_short_forms__rounds_of_a_permutation__have_two_terms_a_lane(hooks: Hooks, width: int) -> None:
    rounds = Rounds(width, seed=width)
    for constants in rounds.constants:
        rounds.next_round(constants)
    for cs in assert_solved_as_by_python(hooks, rounds.system, [0, 1, SCALAR_MODULUS - 1, 7][:width]):
        # width - 1 sides before, as many results and one more, the constant; nine terms stay as they are.
        assert cs.short_terms <= ROUNDS * (max(9, 2 * width) + 1)


@pytest.mark.parametrize("spoil", ["coefficient", "order", "repeated wire"])
@pytest.mark.parametrize("place", [3, 14, 15, 16, ROUNDS - 1])
def test_short_forms__one_round_is_another__still_solve_it(hooks: Hooks, spoil: str, place: int) -> None:
    rounds = Rounds(3, seed=place)
    for number, constants in enumerate(rounds.constants):
        rounds.next_round(constants, spoil=spoil if number == place else "")
    assert_solved_as_by_python(hooks, rounds.system, [3, 5, SCALAR_MODULUS - 2])


def test_short_forms__same_rounds_on_other_wires__are_found_again(hooks: Hooks) -> None:
    rounds = Rounds(3, seed=1)
    for _ in range(3):
        for constants in rounds.constants:
            rounds.next_round(constants)
        fresh = []
        for lane in rounds.lanes:  # of wires that are made of the lanes
            wire = rounds.system.new_wire()
            rounds.system.row(rounds.expression(lane), [(1, 0)], [(1, wire)])
            fresh.append({wire: 1})
        rounds.lanes = fresh
    for cs in assert_solved_as_by_python(hooks, rounds.system, [3, 5, SCALAR_MODULUS - 2]):
        assert cs.short_terms * 2 < cs.counts.terms


@pytest.mark.parametrize("shared", [False, True])
def test_short_forms__components_share_an_expression__leave_it(hooks: Hooks, shared: bool) -> None:
    """Two chains of rows that may run in parallel: the second must not wait for a row of the first."""
    system = System(public=0, secret=12)
    base: Expression = [(system.coefficient(10 + wire), wire) for wire in range(1, 12)]
    twice: Expression = [(system.coefficient(2 * (10 + wire)), wire) for wire in range(1, 12)]
    first, second, other = (system.new_wire() for _ in range(3))
    system.row(base, base, [(1, first)])
    system.row(twice, [(1, first)], [(1, second)])
    system.row(twice if shared else [(1, 3)], [(1, 12)], [(1, other)])
    for start in (second, other):
        wire = start
        for _ in range(300):
            following = system.new_wire()
            system.row([(1, wire)], [(1, wire)], [(1, following)])
            wire = following
    for cs in assert_solved_as_by_python(hooks, system, [*range(1, 12), 9]):
        assert cs.counts.components == 2
        assert cs.short_terms == cs.counts.terms - (0 if shared else len(twice) - 1)
