"""The build for aarch64, emulated, makes the proofs that the build for this CPU makes."""

from pathlib import Path

import pytest
from aarch64 import BUILT_BY_THE_GATE, FIRST, SECOND, Emulated
from golden_vectors import PUBLISHED, RequestVector, provable_with
from kernel_library import Kernel

from prover.keys.store.key_store import KeyStore
from prover.proving.request import read_envelope, read_task

pytestmark = pytest.mark.unchecked  # what is emulated is not instrumented

EMULATED = Emulated(BUILT_BY_THE_GATE)
VECTORS = {vector.circuit: vector for vector in provable_with(PUBLISHED)}
"""One vector of each circuit."""


@pytest.fixture
def emulated() -> Emulated:
    if EMULATED.missing:
        pytest.skip(EMULATED.missing)
    return EMULATED


def inputs_of(vector: RequestVector) -> bytes:
    return bytes(read_task(read_envelope(vector.body), known=None).assignment.inputs)


def key_file(keys: KeyStore, vector: RequestVector) -> Path:
    return {circuit.name: path for circuit, path in keys.installed().items()}[vector.circuit]


@pytest.mark.parametrize("vector", VECTORS.values(), ids=VECTORS)
@pytest.mark.sampled(1)
def test_aarch64__proof_with_known_blinding__is_that_of_this_cpu(
    emulated: Emulated, testing_library: Path, published_keys: KeyStore, vector: RequestVector, tmp_path: Path
) -> None:
    path, inputs = key_file(published_keys, vector), inputs_of(vector)
    backend, proof = emulated.prove(path, inputs, tmp_path)
    assert backend == "aarch64"
    kernel = Kernel(testing_library, "portable", threads=2)
    outcome, key = kernel.load_key(path.read_bytes())
    assert key is not None, outcome.message
    outcome, expected = key.prove_with_blinding(inputs, FIRST, SECOND)
    assert outcome.status == "ok", outcome.message
    assert proof == expected
    key.destroy()
    kernel.close()
