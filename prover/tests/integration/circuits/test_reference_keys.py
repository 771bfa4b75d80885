"""Compiled circuits against the constraint systems inside the reference's own keys, and solved by the kernel."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from circuit_digests import constraint_digest
from circuit_inputs import KEY_FILES, circuit_inputs
from constraint_system_hooks import FORMAT_014, ConstraintSystem, Hooks, Refused
from gnark_014_system import constraint_system_bytes
from gnark_08_system import GNARK_08
from gnark_conversion import decode_cbor, frame, key_sections, sections_014
from golden_vectors import RequestVector, circuit_name, load, request_vectors
from sampling import FULL

from prover.circuits.catalogue import compile_circuit
from prover.circuits.frontend.compiled import CompiledCircuit, HintCall
from prover.circuits.frontend.gnark_release import GNARK_014 as CURRENT
from prover.circuits.frontend.gnark_release import GnarkRelease
from shared.requests.circuit_id import CircuitId

pytestmark = pytest.mark.unchecked

BATCH_KEY_FILES = {
    "batch_append_32_10": "append-with-proofs_32_10.key",
    "batch_update_32_10": "update_32_10.key",
    "batch_address-append_40_10": "address-append_40_10.key",
}
SAMPLED = list(BATCH_KEY_FILES) if FULL else ["batch_append_32_10"]
EDGES: list[dict[str, Any]] = load("circuits/edge_cases.json")
"""Small requests at boundaries with the reference's verdicts."""


@pytest.fixture(scope="module")
def hooks(testing_library: Path) -> Hooks:
    return Hooks(testing_library)


@cache
def compiled(name: str, release: GnarkRelease) -> CompiledCircuit:
    circuit = CircuitId.from_key_file(f"{name}.key")
    assert circuit is not None
    return compile_circuit(circuit, release)


def assert_same_system(reference: ConstraintSystem, ours: CompiledCircuit) -> None:
    """Compare counts, constraints, coefficients and hints of a system that the kernel has read."""
    counts = reference.counts
    assert (counts.public, counts.secret) == (len(ours.public_names), len(ours.secret_names))
    assert (counts.wires, counts.constraints) == (ours.wires, ours.constraints)
    assert reference.coefficients() == b"".join(value.to_bytes(32, "big") for value in ours.coefficients)
    assert reference.digest() == constraint_digest(ours, with_counts=False)
    kinds = {1: ours.release.bits.id, 2: ours.release.inverse_or_zero.id}
    hints = [reference.hint(number) for number in range(counts.hints)]
    expected = [
        HintCall(
            kinds[hint.kind],
            [reference.expression(hint.input)],
            range(hint.first_output, hint.first_output + hint.outputs),
        )
        for hint in sorted(hints, key=lambda hint: hint.first_output)
    ]
    assert [ours.instruction(number) for number in ours.is_hint.nonzero()[0].tolist()] == expected


def input_names(key: bytes) -> tuple[list[str], list[str]]:
    """Return names of public and secret inputs in a key of gnark 0.8."""
    public, _ = decode_cbor(key, key.index(b"\x66Public") + 7)
    secret, _ = decode_cbor(key, key.index(b"\x66Secret") + 7)
    return public, secret


# ---- keys of gnark 0.8 ------------------------------------------------------------------


@pytest.mark.parametrize("name", KEY_FILES)
def test_compile__published_key__holds_the_same_system(name: str, hooks: Hooks, reference_keys_dir: Path) -> None:
    path = reference_keys_dir / KEY_FILES[name]
    ours = compiled(name, GNARK_08)
    assert_same_system(hooks.read_key(path), ours)
    public, secret = input_names(path.read_bytes())
    assert (len(public), len(secret)) == (len(ours.public_names), len(ours.secret_names))


@pytest.mark.reference_batch_keys
@pytest.mark.sampled(0)
@pytest.mark.parametrize("name", BATCH_KEY_FILES)
def test_compile__batch_key_of_the_reference__holds_the_same_system(
    name: str, hooks: Hooks, reference_batch_keys_dir: Path
) -> None:
    assert_same_batch(name, hooks, reference_batch_keys_dir / BATCH_KEY_FILES[name])


def test_compile__small_batch_key_of_the_reference__holds_the_same_system(
    hooks: Hooks, reference_small_batch_key: Path
) -> None:
    assert_same_batch("batch_update_32_2", hooks, reference_small_batch_key)


def assert_same_batch(name: str, hooks: Hooks, path: Path) -> None:
    ours = compiled(name, GNARK_08)
    assert_same_system(hooks.read_key(path), ours)
    public, secret = input_names(path.read_bytes())
    assert (tuple(public), tuple(secret)) == (ours.public_names, ours.secret_names)


@pytest.mark.parametrize("name", ["v1_inclusion_26_1", "v1_non-inclusion_26_1"])
def test_constraint_system__converted_published_key__equals_ours_but_for_names(
    name: str, reference_keys_dir: Path
) -> None:
    key = (reference_keys_dir / KEY_FILES[name]).read_bytes()
    system, _ = decode_cbor(key, key_sections(key).verifying_key_end)
    ours = compiled(name, CURRENT)
    # Constraint systems of that format version call most inputs of these circuits "input_…".
    system |= {"Public": list(ours.public_names), "Secret": list(ours.secret_names)}
    assert constraint_system_bytes(ours) == frame(*sections_014(system))


# ---- read and solved by the kernel -----------------------------------------------------------


@cache
def written(name: str) -> bytes:
    return constraint_system_bytes(compiled(name, CURRENT))


def read_back(hooks: Hooks, name: str) -> ConstraintSystem:
    return hooks.read(written(name), FORMAT_014)


@pytest.mark.parametrize("name", ["v1_combined_26_26_2_1", "v2_combined_32_40_1_2", *SAMPLED])
def test_constraint_system__read_by_the_kernel__is_the_same_again(name: str, hooks: Hooks) -> None:
    ours = compiled(name, CURRENT)
    again = read_back(hooks, name)
    assert_same_system(again, ours)
    assert (again.counts.instructions, again.counts.levels) == (ours.instructions, int(ours.levels.max()) + 1)


@pytest.mark.parametrize("vector", [v for v in request_vectors() if v.witness_sha256], ids=lambda vector: vector.name)
def test_witness__request_of_the_vectors__has_the_wires_of_the_reference(vector: RequestVector, hooks: Hooks) -> None:
    solution = read_back(hooks, vector.circuit).solve(circuit_inputs(vector.request), threads=2)
    assert hashlib.sha256(solution.wires).hexdigest() == vector.witness_sha256


@pytest.mark.parametrize("edge", EDGES, ids=lambda edge: edge["name"])
def test_edge_case__solved_over_our_system__gets_the_verdict_of_the_reference(
    edge: dict[str, Any], hooks: Hooks
) -> None:
    system = read_back(hooks, circuit_name(edge["request"]))
    inputs = circuit_inputs(edge["request"])
    if edge["satisfiable"]:
        system.solve(inputs)
        return
    verdict = edge["goProver"]["gnark 0.14.0 build (server version 2.0.7)"]
    with pytest.raises(Refused) as refused:
        system.solve(inputs)
    assert f"constraint #{refused.value.constraint} is not satisfied" in verdict
