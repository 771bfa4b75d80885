"""The front end's rules: what is emitted, in which order, and that it means what the expressions mean."""

from __future__ import annotations

import pytest
from gnark_08_system import GNARK_08
from golden_vectors import SCALAR_MODULUS, load
from naive_solver import ConstraintBroken, levels_by_definition, solve

from prover.circuits.catalogue import CircuitSizeInvalid, CircuitTooLarge, compile_circuit
from prover.circuits.frontend.compiled import CompiledCircuit, HintCall, Row
from prover.circuits.frontend.gnark_release import GNARK_014, GnarkRelease
from prover.circuits.frontend.system import ConstraintSystem, Expression, UnsatisfiableConstant
from prover.circuits.gadgets.bits import assert_less, to_bits
from prover.circuits.gadgets.choice import is_zero, select
from prover.circuits.gadgets.poseidon import poseidon
from prover.circuits.widths import ADDRESS_BITS
from shared.requests.circuit_id import CircuitId, CircuitKind

any_release = pytest.mark.parametrize("release", [GNARK_08, GNARK_014], ids=lambda g: g.version)


def system_with(*names: str, release: GnarkRelease = GNARK_014) -> tuple[ConstraintSystem, list[Expression]]:
    """Return a system with one public input, and the secret inputs of these names: wires 2 and up."""
    system = ConstraintSystem(release)
    system.declare(system.public_names, "Public")
    return system, [system.declare(system.secret_names, name) for name in names]


def rows_of(system: ConstraintSystem) -> list[tuple[dict[int, int], dict[int, int], dict[int, int]]]:
    """Return the constraints with coefficient values, -1 for r - 1."""
    compiled = CompiledCircuit.of(system)

    def valued(side: list[tuple[int, int]]) -> dict[int, int]:
        signed = ((wire, compiled.coefficients[number]) for number, wire in side)
        return {wire: value - SCALAR_MODULUS if 2 * value > SCALAR_MODULUS else value for wire, value in signed}

    rows = (instruction for instruction in compiled.program() if isinstance(instruction, Row))
    return [(valued(row.left), valued(row.right), valued(row.out)) for row in rows]


def value_of(expression: Expression, wires: list[int]) -> int:
    """Return what an expression is for these values of wires."""
    return sum(factor * wires[wire] for wire, factor in expression.terms) % SCALAR_MODULUS


# ---- what is emitted -------------------------------------------------------------------------


def test_product__of_expressions__makes_a_wire_and_puts_the_longer_side_second() -> None:
    system, (a, b) = system_with("A", "B")
    assert ((a + b) * b).terms == ((4, 1),)
    assert (a * (a + 3)).terms == ((5, 1),)
    assert ((a + b) * (a - b)).terms == ((6, 1),)
    assert rows_of(system) == [
        ({3: 1}, {2: 1, 3: 1}, {4: 1}),
        ({2: 1}, {0: 3, 2: 1}, {5: 1}),
        ({2: 1, 3: 1}, {2: 1, 3: -1}, {6: 1}),
    ]


def test_coefficient_ids__of_a_swapped_row__follow_the_order_before_the_swap() -> None:
    system, (a, b) = system_with("A", "B")
    _ = (a * 7 + b * 5) * (b * 11)
    assert system.coefficients.values[5:] == [7, 5, 11]


def test_sum__of_terms_that_cancel__is_the_zero_term() -> None:
    _, (a, b) = system_with("A", "B")
    assert (a + b - a - b).terms == ((0, 0),)
    assert (a - a + 2).constant == 2
    assert (a + b - a).terms == b.terms
    assert (a * 0).terms == ((0, 0),)


def test_product__with_constants__folds() -> None:
    system, (a,) = system_with("A")
    two = system.constant(2)
    assert (two * 3).constant == 6
    assert (two * a).terms == (a * two).terms == ((2, 2),)
    assert (5 - a).terms == ((0, 5), (2, SCALAR_MODULUS - 1))
    assert system.instructions.rows == 0


@any_release
def test_sum__of_300_terms__is_stored_in_a_wire_where_the_release_does(release: GnarkRelease) -> None:
    system, inputs = system_with(*(f"A{i}" for i in range(300)), release=release)
    total = system.constant(0)
    for item in inputs[:299]:
        total = total + item
    assert system.instructions.rows == 0
    total = total + inputs[299]
    if release is GNARK_014:
        assert total.terms == ((302, 1),)
        assert rows_of(system) == [({0: 1}, dict.fromkeys(range(2, 302), 1), {302: 1})]
    else:
        assert len(total.terms) == 300
        assert system.instructions.rows == 0


def test_equality__of_expressions__is_one_times_left_is_right() -> None:
    system, (a, b) = system_with("A", "B")
    system.assert_equal(a + b, b)
    system.assert_equal(system.constant(4), system.constant(4))
    assert rows_of(system) == [({0: 1}, {2: 1, 3: 1}, {3: 1})]
    with pytest.raises(UnsatisfiableConstant):
        system.assert_equal(system.constant(4), system.constant(5))


def test_boolean__asserted_again__emits_nothing() -> None:
    system, (a,) = system_with("A")
    system.assert_boolean(a)
    system.assert_boolean(a)
    system.assert_boolean(system.constant(1))
    assert rows_of(system) == [({2: 1}, {0: 1, 2: -1}, {0: 0})]
    with pytest.raises(UnsatisfiableConstant):
        system.assert_boolean(system.constant(2))


@any_release
def test_is_zero__then_select__asserts_the_bit_where_the_release_forgets_it(release: GnarkRelease) -> None:
    system, (a, b) = system_with("A", "B", release=release)
    select(is_zero(a), b, a)
    assertion = [({4: 1}, {0: 1, 4: -1}, {0: 0})] if release is GNARK_08 else []
    assert rows_of(system) == [
        ({2: -1}, {5: 1}, {0: -1, 4: 1}),
        ({2: 1}, {4: 1}, {0: 0}),
        *assertion,
        ({4: 1}, {2: -1, 3: 1}, {6: 1}),
    ]


def test_select__with_zero_for_one__multiplies_by_the_complement() -> None:
    system, (bit, a) = system_with("Bit", "A")
    zero = system.constant(0)
    assert select(bit, a, zero).terms == ((4, 1),)
    assert select(bit, zero, a).terms == ((5, 1),)
    assert select(bit, system.constant(3), system.constant(5)).terms == ((0, 5), (2, SCALAR_MODULUS - 2))
    assert select(system.constant(1), a, bit).terms == a.terms
    assert rows_of(system)[1:] == [({2: 1}, {3: 1}, {4: 1}), ({3: 1}, {0: 1, 2: -1}, {5: 1})]


def test_bits__of_a_number__are_a_hint_booleans_and_a_sum() -> None:
    system, (a,) = system_with("A")
    bits = to_bits(a, 3)
    assert [bit.terms for bit in bits] == [((3, 1),), ((4, 1),), ((5, 1),)]
    assert rows_of(system)[-1] == ({0: 1}, {3: 1, 4: 2, 5: 4}, {2: 1})
    compiled = CompiledCircuit.of(system)
    assert compiled.instruction(0) == HintCall(4115454955, [[(1, 2)]], range(3, 6))
    assert (compiled.constraints, compiled.instructions) == (4, 5)
    assert compiled.constraint_offsets.tolist() == [0, 0, 1, 2, 3]


def test_bits__of_one_bit_or_a_constant__need_no_hint() -> None:
    system, (a,) = system_with("A")
    assert to_bits(a, 1)[0].terms == a.terms
    assert [bit.constant for bit in to_bits(system.constant(6), 4)] == [0, 1, 1, 0]
    assert len(rows_of(system)) == 1
    with pytest.raises(ValueError, match="1 to 253 bits"):
        to_bits(a, 254)


def test_inputs__in_the_wrong_order__are_refused() -> None:
    system, (a,) = system_with("A")
    with pytest.raises(ValueError, match="follows a secret one"):
        system.declare(system.public_names, "Late")
    _ = a * a
    with pytest.raises(ValueError, match="follows a computed wire"):
        system.declare(system.secret_names, "Later")


def test_expressions__of_two_systems__do_not_mix() -> None:
    _, (a,) = system_with("A")
    _, (b,) = system_with("B")
    with pytest.raises(ValueError, match="two systems"):
        _ = a + b


def test_hint_ids__of_all_names__equal_the_vectors() -> None:
    ids = {name: number for release in (GNARK_08, GNARK_014) for number, name in release.hints.items()}
    assert ids == load("gnark/encoding.json")["hint_ids"]


# ---- what it means ---------------------------------------------------------------------------


@pytest.mark.parametrize("size", range(1, 13))
@pytest.mark.sampled(6)
def test_poseidon__inputs_of_the_vectors__give_their_hash(size: int) -> None:
    system, wires = system_with(*(f"X{i}" for i in range(size)))
    result = poseidon(*wires)
    compiled = CompiledCircuit.of(system)
    cases = [case for case in load("circuits/poseidon.json")["hash"] if len(case["inputs"]) == size]
    assert cases
    for case in cases:
        values = solve(compiled, [0, *(int(text, 16) for text in case["inputs"])])
        assert value_of(result, values) == int(case["output"], 16)


@pytest.mark.parametrize(("inputs", "constraints"), [(1, 213), (2, 240), (3, 261)])
def test_poseidon__of_few_inputs__has_the_known_size(inputs: int, constraints: int) -> None:
    system, wires = system_with(*(f"X{i}" for i in range(inputs)))
    result = poseidon(*wires)
    assert (system.instructions.rows, system.instructions.count) == (constraints, constraints)
    assert len(result.terms) == inputs + 1


@pytest.mark.parametrize(
    ("low", "high", "holds"),
    [
        (0, 1, True),
        (5, 5, False),
        (6, 5, False),
        (0, 2**ADDRESS_BITS, True),
        (0, 2**ADDRESS_BITS + 1, False),
        (SCALAR_MODULUS - 1, 0, True),
    ],
)
def test_less__at_its_boundaries__holds_for_differences_up_to_2_248(low: int, high: int, holds: bool) -> None:
    system, (a, b) = system_with("A", "B")
    assert_less(a, b)
    compiled = CompiledCircuit.of(system)
    if holds:
        solve(compiled, [0, low, high])
        return
    with pytest.raises(ConstraintBroken) as broken:
        solve(compiled, [0, low, high])
    assert broken.value.constraint == ADDRESS_BITS


# ---- sizes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("circuit", "error"),
    [
        (CircuitId(CircuitKind.INCLUSION, 2, (32,), (0,)), CircuitSizeInvalid),
        (CircuitId(CircuitKind.INCLUSION, 2, (0,), (1,)), CircuitSizeInvalid),
        (CircuitId(CircuitKind.COMBINED, 2, (32, 254), (1, 1)), CircuitSizeInvalid),
        (CircuitId(CircuitKind.BATCH_APPEND, 1, (32,), (1,)), CircuitSizeInvalid),
        (CircuitId(CircuitKind.NON_INCLUSION, 3, (40,), (1,)), CircuitSizeInvalid),
        (CircuitId(CircuitKind.BATCH_UPDATE, 2, (32,), (10**8,)), CircuitTooLarge),
        (CircuitId(CircuitKind.INCLUSION, 1, (26,), (10**9 - 1,)), CircuitTooLarge),
    ],
)
def test_compile__impossible_size__is_refused_at_once(circuit: CircuitId, error: type[Exception]) -> None:
    with pytest.raises(error, match=circuit.name):
        compile_circuit(circuit)


@pytest.mark.parametrize("kind", CircuitKind)
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.sampled(8)
def test_compile__smallest_and_odd_sizes__give_a_system(kind: CircuitKind, version: int) -> None:
    if kind.is_batch:
        version = 2
    pairs = 2 if kind is CircuitKind.COMBINED else 1
    for height, size in ((1, 1), (2, 3), (5, 1)):
        compiled = compile_circuit(CircuitId(kind, version, (height,) * pairs, (size,) * pairs))
        assert compiled.levels.tolist() == levels_by_definition(compiled)
        assert len(set(compiled.public_names + compiled.secret_names)) == compiled.wires - compiled.internal_wires
