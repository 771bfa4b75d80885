"""The reference prover loads constraint systems written here and proves with them.

The points of a key stay the reference's own and the constraint system is replaced, in generation 0.8, which is the one
that the published binary reads. A wrong constraint, wire or order would give a proof that does not hold.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from circuit_inputs import KEY_FILES
from gnark_conversion import key_sections
from golden_vectors import vector_named
from independent_groth16 import IndependentKey
from reference_server import BATCH_VECTORS, MERKLE_VECTORS, assert_proves, fill_up, reference_server
from sampling import FULL

from prover.circuits.catalogue import compile_circuit
from prover.circuits.frontend.generation import GENERATION_08
from prover.circuits.output.generation_08 import write_constraint_system
from shared.circuit_id import CircuitId


def replace_constraint_system(source: Path, target: Path, name: str, wrapper: int) -> None:
    """Copies a key with our constraint system of the circuit in place of its own."""
    circuit = CircuitId.from_key_file(f"{name}.key")
    assert circuit is not None
    key = source.read_bytes()
    target.unlink(missing_ok=True)
    with target.open("wb") as file:
        file.write(key[: key_sections(key, wrapper=wrapper).verifying_key_end])
        write_constraint_system(compile_circuit(circuit, GENERATION_08), file)


def verifying_key(path: Path, wrapper: int) -> IndependentKey:
    key = path.read_bytes()
    at = key_sections(key, wrapper=wrapper)
    return IndependentKey.read(key[at.proving_key_end : at.verifying_key_end])


@pytest.mark.timeout(1200)
def test_reference__merkle_keys_with_our_constraint_systems__proves(
    reference_prover: Path, reference_keys_dir: Path, tmp_path: Path
) -> None:
    vectors = [vector_named(name) for name in MERKLE_VECTORS]
    for vector in vectors:
        file = KEY_FILES[vector.circuit]
        replace_constraint_system(reference_keys_dir / file, tmp_path / file, vector.circuit, wrapper=16)
    fill_up(tmp_path, KEY_FILES.values(), reference_keys_dir / "inclusion_32_1.key")
    with reference_server(reference_prover, tmp_path, tmp_path / "log", "--run-mode", "local-rpc") as port:
        for vector in vectors:
            key = verifying_key(reference_keys_dir / KEY_FILES[vector.circuit], wrapper=16)
            assert_proves(port, vector, key)


@pytest.mark.timeout(1200)
@pytest.mark.reference_batch_keys
@pytest.mark.parametrize("name", BATCH_VECTORS if FULL else ["prover/batch_update_32_10"])
def test_reference__batch_key_with_our_constraint_system__proves(
    name: str, reference_prover: Path, reference_batch_keys_dir: Path, tmp_path: Path
) -> None:
    vector = vector_named(name)
    file, circuit = BATCH_VECTORS[name]
    replace_constraint_system(reference_batch_keys_dir / file, tmp_path / file, vector.circuit, wrapper=8)
    with reference_server(reference_prover, tmp_path, tmp_path / "log", "--circuit", circuit) as port:
        assert_proves(port, vector, verifying_key(reference_batch_keys_dir / file, wrapper=8))
    (tmp_path / file).unlink()
