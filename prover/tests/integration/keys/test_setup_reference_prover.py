"""The reference prover loads keys that our setup made, in the format version that it reads, and proves with them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from circuit_inputs import KEY_FILES
from gnark_08_key import make_gnark_08_key
from golden_vectors import vector_named
from in_process_service import circuit
from independent_groth16 import IndependentKey
from reference_server import BATCH_VECTORS, assert_proves, fill_up, reference_server
from sampling import FULL

from prover.kernel.engine import Engine


def chosen_circuits() -> list[str]:
    """Return one published circuit, by the seed of the run; all of them with ZKC_FULL=1."""
    return list(KEY_FILES) if FULL else [random.choice(list(KEY_FILES))]


def make_key(name: str, key: Path) -> IndependentKey:
    """Make a key of a circuit in gnark 0.8; its verifying key as independent code reads it."""
    text = key.with_suffix(".vkey")
    make_gnark_08_key(circuit(name), key, text)
    raw = bytes(map(int, text.read_text()[1:-1].split(" ")))
    with Engine() as engine, engine.load_verifying_key(raw) as verifying_key:
        return IndependentKey.read(verifying_key.write())


@pytest.mark.timeout(1200)
def test_reference__our_keys_of_published_circuits__prove(reference_prover: Path, tmp_path: Path) -> None:
    vectors = [vector_named(f"circuits/{name}") for name in chosen_circuits()]
    keys = [make_key(vector.circuit, tmp_path / KEY_FILES[vector.circuit]) for vector in vectors]
    # One of ours: the reference goes by what a file says of itself, and a published key could take the place of one.
    stand_in = min(tmp_path.glob("*.key"), key=lambda path: path.stat().st_size)
    fill_up(tmp_path, KEY_FILES.values(), stand_in)
    with reference_server(reference_prover, tmp_path, tmp_path / "log", "--run-mode", "local-rpc") as port:
        for vector, key in zip(vectors, keys, strict=True):
            assert_proves(port, vector, key)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", BATCH_VECTORS)
@pytest.mark.sampled(0)
def test_reference__our_batch_key__proves(name: str, reference_prover: Path, tmp_path: Path) -> None:
    vector = vector_named(name)
    file, chosen = BATCH_VECTORS[name]
    key = make_key(vector.circuit, tmp_path / file)
    with reference_server(reference_prover, tmp_path, tmp_path / "log", "--circuit", chosen) as port:
        assert_proves(port, vector, key)
    (tmp_path / file).unlink()
