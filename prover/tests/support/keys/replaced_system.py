"""Keys of the reference with our constraint system in place of their own, in the format version that it reads."""

from __future__ import annotations

from pathlib import Path

from gnark_08_system import GNARK_08, write_constraint_system
from gnark_conversion import key_sections
from independent_groth16 import IndependentKey

from prover.circuits.catalogue import compile_circuit
from shared.requests.circuit_id import CircuitId


def replace_constraint_system(source: Path, target: Path, name: str, wrapper: int) -> None:
    """Copy a key with our constraint system of the circuit instead of its own."""
    circuit = CircuitId.from_key_file(f"{name}.key")
    assert circuit is not None
    key = source.read_bytes()
    target.unlink(missing_ok=True)
    with target.open("wb") as file:
        file.write(key[: key_sections(key, wrapper=wrapper).verifying_key_end])
        write_constraint_system(compile_circuit(circuit, GNARK_08), file)


def verifying_key(path: Path, wrapper: int) -> IndependentKey:
    key = path.read_bytes()
    at = key_sections(key, wrapper=wrapper)
    return IndependentKey.read(key[at.proving_key_end : at.verifying_key_end])
