"""Prechecks against the witness solver: the same verdict and the same constraint for every input of every family."""

from __future__ import annotations

import functools
import io
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from constraint_system_hooks import GENERATION_014 as HOOKS_014
from constraint_system_hooks import GENERATION_08 as HOOKS_08
from constraint_system_hooks import ConstraintSystem, Hooks, Refused
from golden_vectors import SCALAR_MODULUS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prover.circuits.catalogue import compile_circuit
from prover.circuits.frontend.gnark_release import GNARK_014, GNARK_08, GnarkRelease
from prover.circuits.output.constraint_system import write_constraint_system
from prover.cli.made_up_requests import MadeUpRequests
from prover.proving.assignment import Assignment, read_numbers
from prover.proving.prechecks.satisfiable import first_failure
from shared.circuit_id import CircuitId, CircuitKind
from shared.poseidon import hash3
from shared.proof_wire import decode_request, encode_request
from shared.witness_inputs import chain, chain2, combined_input_hash, update_input_hash

pytestmark = pytest.mark.unchecked

SHAPES = [
    CircuitId(CircuitKind.INCLUSION, 1, (4,), (2,)),
    CircuitId(CircuitKind.INCLUSION, 1, (1,), (2,)),
    CircuitId(CircuitKind.INCLUSION, 2, (32,), (1,)),
    CircuitId(CircuitKind.INCLUSION, 2, (3,), (3,)),
    CircuitId(CircuitKind.INCLUSION, 2, (1,), (2,)),
    CircuitId(CircuitKind.NON_INCLUSION, 1, (26,), (1,)),
    CircuitId(CircuitKind.NON_INCLUSION, 1, (3,), (2,)),
    CircuitId(CircuitKind.NON_INCLUSION, 2, (40,), (1,)),
    CircuitId(CircuitKind.NON_INCLUSION, 2, (3,), (3,)),
    CircuitId(CircuitKind.COMBINED, 1, (26, 26), (1, 1)),
    CircuitId(CircuitKind.COMBINED, 1, (2, 3), (2, 2)),
    CircuitId(CircuitKind.COMBINED, 2, (4, 3), (2, 3)),
    CircuitId(CircuitKind.COMBINED, 2, (3, 4), (3, 1)),
    CircuitId(CircuitKind.BATCH_APPEND, 2, (1,), (1,)),
    CircuitId(CircuitKind.BATCH_APPEND, 2, (4,), (3,)),
    CircuitId(CircuitKind.BATCH_APPEND, 2, (5,), (12,)),  # the hash chain is deeper than the paths
    CircuitId(CircuitKind.BATCH_UPDATE, 2, (1,), (2,)),
    CircuitId(CircuitKind.BATCH_UPDATE, 2, (5,), (3,)),
    CircuitId(CircuitKind.BATCH_UPDATE, 2, (4,), (9,)),
    CircuitId(CircuitKind.BATCH_ADDRESS_APPEND, 2, (2,), (1,)),
    CircuitId(CircuitKind.BATCH_ADDRESS_APPEND, 2, (4,), (3,)),
    CircuitId(CircuitKind.BATCH_ADDRESS_APPEND, 2, (4,), (8,)),
]
GENERATIONS = {GNARK_08: HOOKS_08, GNARK_014: HOOKS_014}
CASES = [(circuit, GNARK_014) for circuit in SHAPES] + [
    (circuit, GNARK_08) for circuit in SHAPES if circuit.kind is CircuitKind.BATCH_APPEND
]
SINGLE_FAULTS = 70
"""Per shape, spread over all its inputs."""

any_case = pytest.mark.parametrize(
    ("circuit", "generation"), CASES, ids=lambda value: value.version if isinstance(value, GnarkRelease) else str(value)
)


@pytest.fixture(scope="module")
def hooks(testing_library: Path) -> Hooks:
    return Hooks(testing_library)


@functools.cache
def system(hooks: Hooks, circuit: CircuitId, generation: GnarkRelease) -> ConstraintSystem:
    """Return the solver's form of a circuit."""
    file = io.BytesIO()
    write_constraint_system(compile_circuit(circuit, generation), file)
    return hooks.read(file.getvalue(), GENERATIONS[generation])


@functools.cache
def valid_inputs(circuit: CircuitId, seed: int = 0) -> tuple[int, ...]:
    """Return the input vector of a made-up request."""
    request = decode_request(encode_request(MadeUpRequests(f"differential {seed}").make(circuit)), circuit.kind)
    data = read_numbers(request, circuit.version).assign(circuit).inputs
    return tuple(int.from_bytes(data[at : at + 32], "big") for at in range(0, len(data), 32))


def solver_verdict(solver: ConstraintSystem, inputs: list[int]) -> int | None:
    """Return the constraint that the solver names."""
    try:
        solver.solve(inputs)
    except Refused as refusal:
        return refusal.constraint
    return None


def precheck_verdict(circuit: CircuitId, inputs: list[int], generation: GnarkRelease) -> int | None:
    """Return the constraint that the prechecks name."""
    data = b"".join(value.to_bytes(32, "big") for value in inputs)
    failure = first_failure(circuit, Assignment(data, b"", ()), generation)
    return None if failure is None else failure.constraint


def other_values(circuit: CircuitId, value: int) -> Iterator[int]:
    """Yield what an input may become: neighbours, ends of the field, of index ranges and of the range of addresses."""
    for height in (*circuit.heights, 248):
        yield from ((1 << height) - 1, 1 << height, value + (1 << height), value - (1 << height))
    yield from (value + 1, value - 1, 0, 1, -1, random.Random(value).randrange(SCALAR_MODULUS))


def with_hashes_of(circuit: CircuitId, inputs: list[int]) -> list[int]:
    """Return the same inputs with matching public input hash and hash chain, so that only paths fail."""
    if circuit.version == 1:
        return inputs
    (height, *_), (size, *_) = circuit.heights, circuit.sizes
    elements = [value.to_bytes(32, "big") for value in inputs]

    def rows(start: int, count: int = size) -> list[bytes]:
        return elements[start : start + count]

    match circuit.kind:
        case CircuitKind.INCLUSION | CircuitKind.NON_INCLUSION:
            elements[0] = chain2(rows(1), rows(1 + size))
        case CircuitKind.COMBINED:
            absent, count = 1 + size * (3 + height), circuit.sizes[1]
            claims = rows(absent, count), rows(absent + count, count)
            elements[0] = combined_input_hash(rows(1), rows(1 + size), *claims)
        case CircuitKind.BATCH_UPDATE:
            indices = inputs[-size:]
            accounts = zip(rows(4 + size), [value.to_bytes(32, "big") for value in indices], rows(4), strict=True)
            elements[3] = chain([hash3(*account) for account in accounts])
            elements[0] = update_input_hash(*elements[1:4])
        case _:
            values = 5 + size if circuit.kind is CircuitKind.BATCH_APPEND else 5 + size * (3 + height)
            elements[3] = chain(rows(values))
            elements[0] = chain(elements[1:5])
    return [int.from_bytes(element, "big") for element in elements]


@any_case
@pytest.mark.sampled(13)
def test_verdict__of_a_valid_request__is_acceptance(hooks: Hooks, circuit: CircuitId, generation: GnarkRelease) -> None:
    inputs = list(valid_inputs(circuit))
    assert with_hashes_of(circuit, inputs) == inputs
    assert solver_verdict(system(hooks, circuit, generation), inputs) is None
    assert precheck_verdict(circuit, inputs, generation) is None


@any_case
@pytest.mark.sampled(13)
def test_verdict__after_any_one_input_changed__is_that_of_the_solver(
    hooks: Hooks, circuit: CircuitId, generation: GnarkRelease
) -> None:
    solver, inputs = system(hooks, circuit, generation), valid_inputs(circuit)
    choose = random.Random(str(circuit))
    places = list(range(len(inputs)))
    if len(places) > SINGLE_FAULTS:
        places = choose.sample(places, SINGLE_FAULTS)
    else:
        places *= SINGLE_FAULTS // len(places)
    seen = set()
    for place in places:
        changed = list(inputs)
        changed[place] = choose.choice(list(other_values(circuit, inputs[place]))) % SCALAR_MODULUS
        expected = solver_verdict(solver, changed)
        assert precheck_verdict(circuit, changed, generation) == expected, (place, changed[place])
        seen.add(expected)
    assert len(seen - {None}) >= 2


@pytest.mark.parametrize("circuit", [circuit for circuit in SHAPES if circuit.version == 2], ids=str)
def test_verdict__of_a_claim_with_the_right_hashes__is_that_of_the_solver(hooks: Hooks, circuit: CircuitId) -> None:
    solver, inputs = system(hooks, circuit, GNARK_014), valid_inputs(circuit)
    for place in range(1, min(len(inputs), 1 + 4 * max(4, *circuit.sizes))):
        changed = list(inputs)
        changed[place] = (inputs[place] + 1) % SCALAR_MODULUS
        changed = with_hashes_of(circuit, changed)
        assert precheck_verdict(circuit, changed, GNARK_014) == solver_verdict(solver, changed), place


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_verdict__after_several_faults__names_the_same_of_them(hooks: Hooks, data: st.DataObject) -> None:
    circuit, generation = data.draw(st.sampled_from(CASES))
    solver, inputs = system(hooks, circuit, generation), list(valid_inputs(circuit, data.draw(st.integers(0, 2))))
    for _ in range(data.draw(st.integers(2, 5))):
        place = data.draw(st.integers(0, len(inputs) - 1))
        choices = [*other_values(circuit, inputs[place]), inputs[data.draw(st.integers(0, len(inputs) - 1))]]
        inputs[place] = data.draw(st.sampled_from(choices)) % SCALAR_MODULUS
    if data.draw(st.booleans()):
        inputs = with_hashes_of(circuit, inputs)
    assert precheck_verdict(circuit, inputs, generation) == solver_verdict(solver, inputs)
