"""Prechecks against the witness solver: the same verdict for every input of every circuit family."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from constraint_system_hooks import FORMAT_014, ConstraintSystem, Hooks, Refused
from gnark_014_system import constraint_system_bytes
from golden_vectors import SCALAR_MODULUS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prover.circuits.catalogue import compile_circuit
from prover.cli.random_requests import RandomRequests
from prover.proving.assignment import Assignment, read_numbers
from prover.proving.prechecks.checks import Failure
from prover.proving.prechecks.satisfiable import first_failure
from shared.requests.circuit_id import CircuitId, CircuitKind
from shared.requests.circuit_inputs import NamedValues
from shared.requests.proof_wire import encode_request, split_body
from shared.requests.witness_inputs import chain, chain2, update_input_hash
from shared.trees.poseidon import hash2, hash3

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
SINGLE_FAULTS = 70
"""Per shape, spread over all its inputs."""

any_circuit = pytest.mark.parametrize("circuit", SHAPES, ids=str)


@pytest.fixture(scope="module")
def hooks(testing_library: Path) -> Hooks:
    return Hooks(testing_library)


@functools.cache
def system(hooks: Hooks, circuit: CircuitId) -> ConstraintSystem:
    """Return the solver's form of a circuit."""
    return hooks.read(constraint_system_bytes(compile_circuit(circuit)), FORMAT_014)


@functools.cache
def valid_inputs(circuit: CircuitId, seed: int = 0) -> tuple[int, ...]:
    """Return the input vector of a random request."""
    request = RandomRequests(f"differential {seed}").make(circuit)
    _, numbers = read_numbers(split_body(encode_request(request)), circuit.kind, circuit.version)
    data = numbers.assign(circuit).inputs
    return tuple(int.from_bytes(data[at : at + 32], "big") for at in range(0, len(data), 32))


def is_solved(solver: ConstraintSystem, inputs: list[int]) -> bool:
    """Return True if the inputs have a witness."""
    try:
        solver.solve(inputs)
    except Refused:
        return False
    return True


def failure_of(circuit: CircuitId, inputs: list[int]) -> Failure | None:
    """Return the failure that the prechecks name."""
    data = b"".join(value.to_bytes(32, "big") for value in inputs)
    return first_failure(circuit, Assignment(data, b"", ()))


def other_values(circuit: CircuitId, value: int) -> Iterator[int]:
    """Yield what an input may become: neighbours, ends of the field, of index ranges and of the range of addresses."""
    for height in (*circuit.heights, 248):
        yield from ((1 << height) - 1, 1 << height, value + (1 << height), value - (1 << height))
    yield from (value + 1, value - 1, 0, 1, -1, random.Random(value).randrange(SCALAR_MODULUS))


def with_hashes_of(circuit: CircuitId, inputs: list[int]) -> list[int]:
    """Return the same inputs with matching public input hash and hash chain, so that only paths fail."""
    if circuit.version == 1:
        return inputs
    elements = [value.to_bytes(32, "big") for value in inputs]
    named = NamedValues(circuit, elements)
    match circuit.kind:
        case CircuitKind.INCLUSION:
            elements[0] = chain2(named.vector("Roots"), named.vector("Leaves"))
        case CircuitKind.NON_INCLUSION:
            elements[0] = chain2(named.vector("Roots"), named.vector("Values"))
        case CircuitKind.COMBINED:
            members = chain2(named.vector("Inclusion_Roots"), named.vector("Inclusion_Leaves"))
            absences = chain2(named.vector("NonInclusion_Roots"), named.vector("NonInclusion_Values"))
            elements[0] = hash2(members, absences)
        case CircuitKind.BATCH_UPDATE:
            accounts = zip(named.vector("Leaves"), named.vector("PathIndices"), named.vector("TxHashes"), strict=True)
            elements[3] = chain([hash3(*account) for account in accounts])
            elements[0] = update_input_hash(*elements[1:4])
        case _:
            added = "Leaves" if circuit.kind is CircuitKind.BATCH_APPEND else "NewElementValues"
            elements[3] = chain(named.vector(added))
            elements[0] = chain(elements[1:5])
    return [int.from_bytes(element, "big") for element in elements]


@any_circuit
@pytest.mark.sampled(13)
def test_verdict__of_a_valid_request__is_acceptance(hooks: Hooks, circuit: CircuitId) -> None:
    inputs = list(valid_inputs(circuit))
    assert with_hashes_of(circuit, inputs) == inputs
    assert is_solved(system(hooks, circuit), inputs)
    assert failure_of(circuit, inputs) is None


@any_circuit
@pytest.mark.sampled(13)
def test_verdict__after_any_one_input_changed__is_that_of_the_solver(hooks: Hooks, circuit: CircuitId) -> None:
    solver, inputs = system(hooks, circuit), valid_inputs(circuit)
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
        found = failure_of(circuit, changed)
        assert (found is None) == is_solved(solver, changed), (place, changed[place])
        seen.add(found)
    assert len(seen - {None}) >= 2


@pytest.mark.parametrize("circuit", [circuit for circuit in SHAPES if circuit.version == 2], ids=str)
def test_verdict__of_a_claim_with_the_right_hashes__is_that_of_the_solver(hooks: Hooks, circuit: CircuitId) -> None:
    solver, inputs = system(hooks, circuit), valid_inputs(circuit)
    for place in range(1, min(len(inputs), 1 + 4 * max(4, *circuit.sizes))):
        changed = list(inputs)
        changed[place] = (inputs[place] + 1) % SCALAR_MODULUS
        changed = with_hashes_of(circuit, changed)
        assert (failure_of(circuit, changed) is None) == is_solved(solver, changed), place


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_verdict__after_several_faults__is_that_of_the_solver(hooks: Hooks, data: st.DataObject) -> None:
    circuit = data.draw(st.sampled_from(SHAPES))
    solver, inputs = system(hooks, circuit), list(valid_inputs(circuit, data.draw(st.integers(0, 2))))
    for _ in range(data.draw(st.integers(2, 5))):
        place = data.draw(st.integers(0, len(inputs) - 1))
        choices = [*other_values(circuit, inputs[place]), inputs[data.draw(st.integers(0, len(inputs) - 1))]]
        inputs[place] = data.draw(st.sampled_from(choices)) % SCALAR_MODULUS
    if data.draw(st.booleans()):
        inputs = with_hashes_of(circuit, inputs)
    assert (failure_of(circuit, inputs) is None) == is_solved(solver, inputs)
