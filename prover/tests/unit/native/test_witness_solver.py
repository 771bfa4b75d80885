"""Witness solving: golden wires and vectors, the reference's verdicts, and small systems against Python integers."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import pytest
from circuit_inputs import KEY_FILES, circuit_inputs
from constraint_system_hooks import FORMAT_014, FORMAT_08, ConstraintSystem, Hooks, Refused, Solution
from gnark_conversion import Expression, key_sections
from golden_vectors import BATCH, PUBLISHED, SCALAR_MODULUS, RequestVector, load, provable_with
from hypothesis import given, settings
from kernel_library import BACKENDS
from random_systems import solvable_systems
from sampling import examples
from small_systems import ONE, ZERO, System, Unsatisfied

BATCH_FILES = {
    "batch_append_32_10": "append-with-proofs_32_10.key",
    "batch_update_32_10": "update_32_10.key",
    "batch_address-append_40_10": "address-append_40_10.key",
}
EDGE_KEYS = {
    "v1_inclusion": "v1_inclusion_26_1",
    "v2_inclusion": "v2_inclusion_32_1",
    "v1_noninclusion": "v1_non-inclusion_26_1",
    "v2_noninclusion": "v2_non-inclusion_40_1",
}
FORMAT_VERSIONS = (FORMAT_08, FORMAT_014)
any_backend = pytest.mark.parametrize("backend", BACKENDS)
any_format = pytest.mark.parametrize("format_version", FORMAT_VERSIONS)


@pytest.fixture(scope="module")
def hooks(testing_library: Path) -> Hooks:
    return Hooks(testing_library)


@pytest.fixture(scope="module")
def keys() -> dict[Path, ConstraintSystem]:
    """Keys that were read already."""
    return {}


def packed(values: list[int]) -> bytes:
    return b"".join((value % SCALAR_MODULUS).to_bytes(32, "big") for value in values)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def tiny(hooks: Hooks, format_version: int) -> ConstraintSystem:
    modern = format_version == FORMAT_014
    key = bytes.fromhex(load("gnark/tiny.json")["key_v0_14_hex" if modern else "key_v0_8_hex"])
    return hooks.read(key[key_sections(key, format_014=modern).verifying_key_end :], format_version)


def tiny_inputs(case: dict[str, Any]) -> list[int]:
    return [int(text, 16) for text in case["public"] + case["secret"]]


@any_backend
@any_format
@pytest.mark.parametrize("case", ["z0", "z6"])
def test_solve__tiny_system__gives_the_golden_values(
    hooks: Hooks, format_version: int, backend: str, case: str
) -> None:
    expected = load("gnark/tiny.json")["cases"][case]
    solution = tiny(hooks, format_version).solve(tiny_inputs(expected), backend)
    for name in ("wires", "a", "b", "c"):
        assert getattr(solution, name) == packed([int(text, 16) for text in expected[name]])


@any_backend
@any_format
def test_solve__tiny_system_with_wrong_public_input__names_the_constraint(
    hooks: Hooks, format_version: int, backend: str
) -> None:
    inputs = tiny_inputs(load("gnark/tiny.json")["cases"]["z6"])
    with pytest.raises(Refused) as refusal:
        tiny(hooks, format_version).solve([inputs[0] + 1, *inputs[1:]], backend)
    assert refusal.value.status == "unsatisfied_constraint"
    assert refusal.value.constraint == 8
    assert refusal.value.message == "constraint system error: constraint #8 is not satisfied"


@any_format
def test_solve__two_rows_fail__names_the_one_of_the_lower_level(hooks: Hooks, format_version: int) -> None:
    # X = 16 has five bits: row 5 (level 1) fails; Y is wrong as well: row 8 (level 2).
    with pytest.raises(Refused) as refusal:
        tiny(hooks, format_version).solve([1, 16, 0])
    assert refusal.value.constraint == 5


def test_solve__rows_fail_in_a_later_row_of_a_lower_level__names_that(hooks: Hooks) -> None:
    system = System(secret=1)
    square, fourth = system.new_wire(), system.new_wire()
    system.row([(1, 2)], [(1, 2)], [(1, square)])
    system.row([(1, square)], [(1, square)], [(1, fourth)])
    system.row([(1, fourth)], ONE, [(1, 1)])  # level 2
    system.row([(1, square)], ONE, [(1, 1)])  # level 1
    system.row([(1, square)], ONE, [(2, 1)])  # level 1, later
    with pytest.raises(Unsatisfied) as expected:
        system.solve([7, 5])
    assert expected.value.args == (3,)
    for format_version in FORMAT_VERSIONS:
        with pytest.raises(Refused) as refusal:
            hooks.read(system.encode(format_version), format_version).solve([7, 5])
        assert refusal.value.constraint == 3


@pytest.mark.parametrize("count", [0, 2, 4])
def test_solve__wrong_number_of_inputs__is_refused(hooks: Hooks, count: int) -> None:
    with pytest.raises(Refused) as refusal:
        tiny(hooks, FORMAT_014).solve([1] * count)
    assert refusal.value.status == "invalid_argument"
    assert refusal.value.message == f"the circuit has 3 inputs, but {count} were given"


@pytest.mark.parametrize("index", [0, 2])
@pytest.mark.parametrize("value", [SCALAR_MODULUS, 2**256 - 1])
def test_solve__input_at_or_above_the_modulus__is_named_without_its_value(hooks: Hooks, index: int, value: int) -> None:
    inputs = [1, 1, 1]
    inputs[index] = value
    with pytest.raises(Refused) as refusal:
        tiny(hooks, FORMAT_08).solve(inputs)
    assert refusal.value.status == "invalid_argument"
    assert refusal.value.message == f"input {index} is not below the modulus of the scalar field"


def test_solve__cancelled__reports_it(hooks: Hooks) -> None:
    with pytest.raises(Refused) as refusal:
        tiny(hooks, FORMAT_014).solve([129, 11, 0], cancelled=True)
    assert refusal.value.status == "cancelled"


@any_backend
@pytest.mark.parametrize("unknown_side", [0, 1])
@pytest.mark.parametrize("factor", [0, 5])
@pytest.mark.parametrize("product", [0, 35])
def test_solve__unknown_in_a_factor__divides_or_finds_the_contradiction(
    hooks: Hooks, backend: str, unknown_side: int, factor: int, product: int
) -> None:
    system = System(secret=2)
    wire = system.new_wire()
    unknown: Expression = [(1, 2), (system.coefficient(9), wire), (2, 0)]
    sides: list[Expression] = [unknown, [(1, 2)]] if unknown_side == 0 else [[(1, 2)], unknown]
    system.row(sides[0], sides[1], [(1, 3)])
    cs = hooks.read(system.encode(FORMAT_014), FORMAT_014)
    inputs = [1, factor, product]
    if factor == 0 and product != 0:
        with pytest.raises(Refused, match="constraint #0 is not satisfied"):
            cs.solve(inputs, backend)
        return
    assert [getattr(cs.solve(inputs, backend), name) for name in ("wires", "a", "b", "c")] == list(
        map(packed, system.solve(inputs))
    )


@settings(max_examples=examples(150), deadline=None)
@given(case=solvable_systems())
def test_solve__random_systems__agree_with_python_integers(hooks: Hooks, case: tuple[System, list[int]]) -> None:
    system, inputs = case
    expected: list[bytes] | int
    try:
        expected = list(map(packed, system.solve(inputs)))
    except Unsatisfied as failure:
        expected = int(failure.args[0])
    for format_version in FORMAT_VERSIONS:
        cs = hooks.read(system.encode(format_version), format_version)
        for backend in BACKENDS:
            if isinstance(expected, int):
                with pytest.raises(Refused) as refusal:
                    cs.solve(inputs, backend)
                assert refusal.value.constraint == expected
            else:
                solution = cs.solve(inputs, backend)
                assert [solution.wires, solution.a, solution.b, solution.c] == expected


@any_backend
@pytest.mark.parametrize("terms", [26, 27, 28, 54, 55, 400])
def test_solve__longest_carries__stay_exact(hooks: Hooks, backend: str, terms: int) -> None:
    # Montgomery forms of r - 1 for coefficient and wire make the largest products; the accumulator holds 27 of them.
    largest = (SCALAR_MODULUS - 1) * pow(1 << 256, -1, SCALAR_MODULUS) % SCALAR_MODULUS
    system = System(public=0, secret=1)
    side: Expression = [(system.coefficient(largest), 1)] * terms
    out = system.new_wire()
    system.row(side, ONE, [(1, out)])
    cs = hooks.read(system.encode(FORMAT_014), FORMAT_014)
    assert cs.solve([largest], backend).wires == packed(system.solve([largest])[0])


def solve_everywhere(cs: ConstraintSystem, inputs: list[int]) -> Solution:
    """Return the solution, after both backends and several threads gave the same."""
    solution = cs.solve(inputs)
    for backend in BACKENDS:
        for threads in (1, 3):
            assert cs.solve(inputs, backend, threads) == solution
    return solution


def assert_golden(solution: Solution, vector: RequestVector, names: tuple[str, ...] = ("a", "b", "c")) -> None:
    if vector.witness_sha256:
        assert sha256(solution.wires) == vector.witness_sha256
    for name in names:
        golden = getattr(vector, f"{name}_sha256")
        assert golden in (None, sha256(getattr(solution, name)))


@pytest.mark.parametrize("vector", provable_with(PUBLISHED), ids=lambda vector: vector.name)
def test_solve__golden_request__gives_the_golden_wires(
    hooks: Hooks, keys: dict[Path, ConstraintSystem], reference_keys_dir: Path, vector: RequestVector
) -> None:
    path = reference_keys_dir / KEY_FILES[vector.circuit]
    cs = keys.get(path) or keys.setdefault(path, hooks.read_key(path))
    inputs = circuit_inputs(vector.request)
    assert vector.inputs_sha256 in (None, sha256(packed(inputs)))
    assert_golden(solve_everywhere(cs, inputs), vector)


@pytest.mark.reference_batch_keys
@pytest.mark.parametrize("vector", provable_with(BATCH), ids=lambda vector: vector.name)
@pytest.mark.sampled(4)
def test_solve__golden_batch_request__gives_the_golden_wires(
    hooks: Hooks, keys: dict[Path, ConstraintSystem], reference_batch_keys_dir: Path, vector: RequestVector
) -> None:
    path = reference_batch_keys_dir / BATCH_FILES[vector.circuit]
    cs = keys.get(path) or keys.setdefault(path, hooks.read_key(path))
    inputs = circuit_inputs(vector.request)
    assert vector.inputs_sha256 in (None, sha256(packed(inputs)))
    solution = solve_everywhere(cs, inputs)
    if vector.circuit == "batch_append_32_10":
        solution = without_rows(solution, extra_boolean_rows(cs))
    assert_golden(solution, vector)


def extra_boolean_rows(cs: ConstraintSystem) -> list[int]:
    """Return the rows of batch append that gnark 0.14 does not have.

    They say w * (1 - w) = 0 for the result of IsZero, which a row solves and not a bit hint.
    """
    hints = [cs.hint(number) for number in range(cs.counts.hints)]
    outputs = {wire for hint in hints for wire in range(hint.first_output, hint.first_output + hint.outputs)}
    rows = []
    for number in range(cs.counts.constraints):
        row = cs.row(number)
        left = cs.expression(row.left)
        if row.solves or cs.expression(row.out) != ZERO or len(left) != 1 or left[0][1] in outputs:
            continue
        if sorted(cs.expression(row.right)) == [(1, 0), (3, left[0][1])]:
            rows.append(number)
    assert len(rows) == 10
    return rows


def without_rows(solution: Solution, rows: list[int]) -> Solution:
    def cut(values: bytes) -> bytes:
        kept = bytearray(values)
        for row in reversed(rows):
            del kept[32 * row : 32 * row + 32]
        return bytes(kept)

    return Solution(solution.wires, cut(solution.a), cut(solution.b), cut(solution.c))


@pytest.mark.parametrize("case", load("circuits/edge_cases.json"), ids=lambda case: str(case["name"]))
def test_solve__edge_case__has_the_verdict_of_the_reference(
    hooks: Hooks, keys: dict[Path, ConstraintSystem], reference_keys_dir: Path, case: dict[str, Any]
) -> None:
    path = reference_keys_dir / KEY_FILES[EDGE_KEYS[case["circuit"]]]
    cs = keys.get(path) or keys.setdefault(path, hooks.read_key(path))
    inputs = circuit_inputs(case["request"])
    verdict = case["goProver"]["gnark 0.8.0 release"]
    if verdict == "accepted":
        solve_everywhere(cs, inputs)
        return
    (number,) = re.findall(r"constraint #(\d+) is not satisfied", verdict)
    for threads in (1, 3):
        with pytest.raises(Refused) as refusal:
            cs.solve(inputs, threads=threads)
        assert refusal.value.status == "unsatisfied_constraint"
        assert refusal.value.message == f"constraint system error: constraint #{number} is not satisfied"
