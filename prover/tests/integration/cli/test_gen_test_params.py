"""Made-up requests become proofs under published keys, and independent code accepts them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from golden_vectors import BATCH, PUBLISHED
from in_process_service import VerifyingKeyOf, circuit, open_store, scalars
from independent_groth16 import holds
from sampling import FULL

from prover.cli.random_requests import RandomRequests
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine
from prover.keys.store.key_store import KeyStore
from prover.proving.proof_encoding import read_proof
from prover.proving.proof_making import prove_with_key
from prover.proving.request import read_envelope, read_task
from shared.requests.proof_wire import encode_request
from shared.requests.witness_inputs import public_inputs

PROVER = Path(sys.executable).with_name("prover")
INDEPENDENT = ("v1_combined_26_26_1_2", "v2_combined_32_40_2_1")


def assert_provable(name: str, store: KeyStore, engine: Engine) -> tuple[bytes, tuple[int, ...]]:
    """Prove and verify a random request; return the proof and its public inputs."""
    request = RandomRequests(name).make(circuit(name))
    body = encode_request(request)
    task = read_task(read_envelope(body), known=None)
    assert task.circuit == circuit(name)
    key = store.get(task.circuit, CancelFlag())
    proof = prove_with_key(key, task, CancelFlag())
    inputs = tuple(int.from_bytes(value, "big") for value in public_inputs(request))
    with engine.load_verifying_key(key.verifying_key.write()) as alone:
        alone.verify(read_proof(proof.body), scalars(inputs))
    return proof.body, inputs


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_random_request__of_a_published_circuit__is_proved(
    name: str, published_keys: KeyStore, engine: Engine, verifying_key_of: VerifyingKeyOf
) -> None:
    proof, inputs = assert_provable(name, published_keys, engine)
    if name in INDEPENDENT:
        assert holds(verifying_key_of(published_keys, name), json.loads(proof), inputs)


@pytest.mark.reference_batch_keys
@pytest.mark.parametrize("name", sorted(BATCH) if FULL else ["batch_append_32_10"])
def test_random_request__of_a_batch_circuit__is_proved(name: str, batch_keys: KeyStore, engine: Engine) -> None:
    assert_provable(name, batch_keys, engine)


def test_random_request__of_a_small_batch__is_proved_under_the_key_of_the_reference(
    reference_small_batch_key: Path, engine: Engine, verifying_key_of: VerifyingKeyOf
) -> None:
    store = open_store(reference_small_batch_key.parent, engine)
    proof, inputs = assert_provable("batch_update_32_2", store, engine)
    assert holds(verifying_key_of(store, "batch_update_32_2"), json.loads(proof), inputs)
    store.close()


def test_command__piped_into_prove__gives_a_proof(reference_keys_dir: Path) -> None:
    made = subprocess.run([PROVER, "gen-test-params"], capture_output=True, check=True)
    key = reference_keys_dir / "inclusion_32_1.key"
    proved = subprocess.run([PROVER, "prove", "--key", key], input=made.stdout, capture_output=True)
    assert proved.returncode == 0, proved.stderr.decode()
    read_proof(proved.stdout)
