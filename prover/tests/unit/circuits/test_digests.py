"""Compiled circuits against the reference compiler's: every count and digest of the vector file."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from circuit_digests import statistics
from golden_vectors import load

from prover.circuits.catalogue import compile_circuit
from prover.circuits.gadgets.poseidon_constants import parameters
from shared.requests.circuit_id import CircuitId

STATISTICS: dict[str, dict[str, Any]] = load("circuits/r1cs_stats.json")["circuits"]
POSEIDON: dict[str, Any] = load("circuits/poseidon.json")


def circuit_named(name: str) -> CircuitId:
    circuit = CircuitId.from_key_file(f"{name}.key")
    assert circuit is not None
    return circuit


def digest_of(rows: tuple[tuple[int, ...], ...]) -> str:
    return hashlib.sha256(b"".join(value.to_bytes(32, "big") for row in rows for value in row)).hexdigest()


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.sampled(10)
def test_compile__circuit_of_the_vectors__equals_the_reference_compiler(name: str) -> None:
    compiled = compile_circuit(circuit_named(name))
    expected = {key: value for key, value in STATISTICS[name].items() if key != "shape"}
    assert statistics(compiled) == expected


@pytest.mark.parametrize("name", ["v2_combined_32_40_2_1", "batch_append_4_3", "batch_address-append_4_3"])
@pytest.mark.sampled(1)
def test_compile__without_repetition__gives_the_same_system(name: str) -> None:
    compiled = compile_circuit(circuit_named(name), repeat=False)
    expected = {key: value for key, value in STATISTICS[name].items() if key != "shape"}
    assert statistics(compiled) == expected


@pytest.mark.parametrize("width", POSEIDON["parameters"])
@pytest.mark.sampled(6)
def test_poseidon_parameters__of_every_width__equal_the_vectors(width: str) -> None:
    expected = POSEIDON["parameters"][width]
    made = parameters(int(width) - 1)
    assert made.partial_rounds == POSEIDON["rounds_partial"][width]
    assert digest_of(made.round_constants) == expected["roundConstantsSha256"]
    assert digest_of(made.matrix) == expected["mdsSha256"]
