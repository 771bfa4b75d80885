"""Gadgets that are repeated as arrays emit what they would emit written out, and mean the same."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from golden_vectors import SCALAR_MODULUS
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_solver import levels_by_definition, solve

from prover.circuits.frontend.compiled import CompiledCircuit, Row
from prover.circuits.frontend.gadget import gadget
from prover.circuits.frontend.system import ConstraintSystem, Expression
from prover.circuits.gadgets.bits import to_bits
from prover.circuits.gadgets.choice import is_zero, select
from prover.circuits.gadgets.merkle import parent
from prover.circuits.gadgets.poseidon import poseidon


def system_with(*names: str) -> tuple[ConstraintSystem, list[Expression]]:
    """Return a system with one public input, and the secret inputs of these names: wires 2 and up."""
    system = ConstraintSystem()
    system.declare(system.public_names, "Public")
    return system, [system.declare(system.secret_names, name) for name in names]


@gadget
def polynomial(x: Expression, ys: list[Expression], degree: int) -> list[Expression]:
    """Return a gadget whose constraints depend on everything that may change between calls."""
    power, results = x, []
    for y in ys:
        for _ in range(degree):
            power = power * (x + y + 1)
        results.append(power - y)
    return [*results, x + 2]


@gadget
def choice(bit: Expression, one: Expression, zero: Expression) -> Expression:
    """Return a gadget that asserts what it may know already, and calls another."""
    chosen = select(bit, one, zero)
    return polynomial(chosen, [bit, zero], 1)[0] + is_zero(chosen)


@dataclass
class Pool:
    """Expressions with the values that they must have."""

    items: list[tuple[Expression, int]] = field(default_factory=list)
    bits: list[tuple[Expression, int]] = field(default_factory=list)


def polynomial_value(x: int, ys: list[int], degree: int) -> list[int]:
    power, results = x, []
    for y in ys:
        power *= (x + y + 1) ** degree
        results.append(power - y)
    return [*results, x + 2]


def extend(system: ConstraintSystem, pool: Pool, code: int, picks: list[int]) -> None:
    """Add one step of a random circuit, and the same step in integers."""
    (x, p), (y, q), (z, s) = (pool.items[pick % len(pool.items)] for pick in picks[:3])
    bit, b = pool.bits[picks[3] % len(pool.bits)]
    small = picks[3] % 7 - 3
    made: list[tuple[Expression, int]]
    match code % 11:
        case 0:
            made = [(x + y - z, p + q - s)]
        case 1:
            made = [(x * y, p * q)]
        case 2:
            made = [(-x * small + small, -p * small + small)]
        case 3:
            made = [(select(bit, x, y), p if b else q)]
        case 4:
            made = [(is_zero(x - y), int((p - q) % SCALAR_MODULUS == 0))]
        case 5:
            made = list(zip(polynomial(x, [y, z], 1), polynomial_value(p, [q, s], 1), strict=True))
        case 6:
            made = list(zip(polynomial(x, [x], 2), polynomial_value(p, [p], 2), strict=True))
        case 7:
            chosen = p if b else q
            made = [(choice(bit, x, y), polynomial_value(chosen, [b, q], 1)[0] + int(chosen % SCALAR_MODULUS == 0))]
        case 8 if p < 2**6:
            pool.bits += [(e, p >> i & 1) for i, e in enumerate(to_bits(x, 6))]
            return
        case 9:
            system.assert_equal(x * y - z, y * x - z)
            return
        case _:
            made = [(x + system.constant(small), p + small)]
    pool.items += [(expression, value % SCALAR_MODULUS) for expression, value in made]


def random_circuit(
    steps: list[tuple[int, list[int]]], inputs: list[int], *, repeat: bool
) -> tuple[CompiledCircuit, Pool]:
    system = ConstraintSystem(repeat=repeat)
    public = [system.declare(system.public_names, "P")]
    secret = [system.declare(system.secret_names, f"S_{index}") for index in range(len(inputs) - 2)]
    bit = system.declare(system.secret_names, "Bit")
    pool = Pool(list(zip([*public, *secret, bit], inputs, strict=True)), [(bit, inputs[-1])])
    for code, picks in steps:
        extend(system, pool, code, picks)
    return CompiledCircuit.of(system), pool


field_elements = st.one_of(st.integers(0, 40), st.integers(0, SCALAR_MODULUS - 1))
steps = st.lists(st.tuples(st.integers(0, 10), st.lists(st.integers(0, 60), min_size=4, max_size=4)), max_size=30)


@settings(max_examples=150, deadline=None)
@given(steps, st.lists(field_elements, min_size=2, max_size=4), st.integers(0, 1))
def test_random_circuit__solved_naively__has_the_values_of_its_expressions(
    steps: list[tuple[int, list[int]]], inputs: list[int], bit: int
) -> None:
    compiled, pool = random_circuit(steps, [*inputs, bit], repeat=True)
    wires = solve(compiled, [*inputs, bit])
    for expression, value in (*pool.items, *pool.bits):
        assert sum(factor * wires[wire] for wire, factor in expression.terms) % SCALAR_MODULUS == value
    assert compiled.levels.tolist() == levels_by_definition(compiled)

    written_out, _ = random_circuit(steps, [*inputs, bit], repeat=False)
    assert compiled.coefficients == written_out.coefficients
    assert (compiled.wires, compiled.constraints) == (written_out.wires, written_out.constraints)
    for name in ("words", "starts", "is_hint", "wire_counts", "levels"):
        assert np.array_equal(getattr(compiled, name), getattr(written_out, name)), name


def test_gadget__called_again__is_repeated_and_not_run() -> None:
    runs = []

    @gadget
    def counted(x: Expression) -> Expression:
        runs.append(x)
        return x * x

    _, (a, b) = system_with("A", "B")
    assert [counted(a).terms, counted(b).terms, counted(a * a).terms] == [((4, 1),), ((5, 1),), ((7, 1),)]
    counted(a + b)  # two terms look different from one
    counted(a * 2)  # and so does another coefficient
    assert len(runs) == 3


def test_gadget__that_depends_on_a_mark_from_outside__is_not_repeated() -> None:
    @gadget
    def complement(x: Expression) -> Expression:
        system.assert_boolean(1 - x)
        return x * x

    system, (a, b) = system_with("A", "B")
    system.assert_boolean(1 - b)
    complement(a)
    complement(b)
    assert [len(row.right) for row in CompiledCircuit.of(system).program() if isinstance(row, Row)] == [2, 2, 1, 1]


def test_gadget__that_determines_a_wire_it_was_given__is_written_out() -> None:
    @gadget
    def square_into(x: Expression, wire: Expression) -> None:
        x.system.constrain(x.terms, x.terms, wire.terms)

    system, (a, b) = system_with("A", "B")
    for x in (a * b, b, a):
        wire = system.new_wire()
        square_into(x, wire)
        _ = wire * wire
    compiled = CompiledCircuit.of(system)
    assert compiled.levels.tolist() == levels_by_definition(compiled) == [0, 1, 2, 0, 1, 0, 1]


def test_gadget__that_reads_a_wire_it_was_not_given__is_refused() -> None:
    _, (a, b, c) = system_with("A", "B", "C")

    @gadget
    def smuggling(x: Expression) -> Expression:
        return x * b

    smuggling(a)
    with pytest.raises(ValueError, match="none of its arguments"):
        smuggling(c)


def test_parent__of_another_bit__moves_levels_along_the_longest_path() -> None:
    system, (leaf, index, *siblings) = system_with("Leaf", "Index", "S0", "S1", "S2")
    node = leaf
    for bit, sibling in zip(to_bits(index, 3), siblings, strict=True):
        node = parent(node, bit, sibling)
    late_bit = to_bits(poseidon(node), 253)[0]  # here the bit is later than the node
    parent(leaf, late_bit, siblings[0])
    compiled = CompiledCircuit.of(system)
    assert compiled.levels.tolist() == levels_by_definition(compiled)
