"""Every golden request becomes a proof over HTTP that three verifiers accept.

Ours (before the proof leaves the process, and again on the exported key), gnark's in the reference binary, and
py_ecc's. A wrong public input is rejected by each.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from golden_vectors import (
    BATCH,
    PUBLISHED,
    UNBLINDED,
    RequestVector,
    load,
    provable_with,
    request_vectors,
    vector_named,
)
from in_process_service import CONVERTED, Serve, StoreFor, VerifyingKeyOf, circuit, scalars
from independent_groth16 import holds, reference_accepts
from sampling import FULL

from prover.errors import ProofRejected
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine
from prover.keys.store.key_store import KeyStore
from prover.proving.proof_encoding import read_proof
from prover.proving.request import read_envelope, read_task


def parameter(vector: RequestVector) -> pytest.ParameterSet:
    """Return one case of a test, marked when it needs a batch key."""
    marks = [pytest.mark.reference_batch_keys] if vector.circuit in BATCH else []
    return pytest.param(vector, marks=marks, id=vector.name)


PROVABLE = provable_with(PUBLISHED | BATCH)
FIRST_OF_ITS_CIRCUIT = {vector.circuit: vector for vector in reversed(PROVABLE)}.values()
FIRST_OF_ITS_KIND = {(circuit(v.circuit).kind, circuit(v.circuit).version): v for v in reversed(PROVABLE)}.values()
PROVED = PROVABLE if FULL else FIRST_OF_ITS_CIRCUIT
ASKED_OF_OTHERS = PROVABLE if FULL else FIRST_OF_ITS_KIND
"""The verifiers that are not ours take seconds for each."""
MERKLE = [parameter(vector) for vector in PROVED if vector.circuit in PUBLISHED]
BATCHES = [parameter(vector) for vector in PROVED if vector.circuit in BATCH]


def test_vectors__all_but_one__have_a_key_here() -> None:
    """Nothing is omitted silently: one circuit has no published key."""
    missing = {vector.name for vector in request_vectors() if vector.circuit not in PUBLISHED | BATCH}
    assert missing == {"circuits/v2_non-inclusion_40_3"}


async def prove(vector: RequestVector, serve: Serve, store: KeyStore, engine: Engine) -> bytes:
    """Return the proof that a server answers with, which our verifier accepts under the exported key alone."""
    exported = store.get(circuit(vector.circuit), CancelFlag()).verifying_key.write()
    client = await serve(store)
    response = await client.post("/prove", data=vector.body)
    body = await response.read()
    assert response.status == 200, body
    assert response.headers["Content-Type"] == "application/json"
    assert len(body) == 579
    assert ("X-Warning" in response.headers) == vector.is_batch
    with engine.load_verifying_key(exported) as alone:
        alone.verify(read_proof(body), scalars(vector.public_inputs))
        with pytest.raises(ProofRejected):
            alone.verify(read_proof(body), scalars((vector.public_inputs[0] ^ 1, *vector.public_inputs[1:])))
    return body


@pytest.mark.parametrize("vector", MERKLE)
async def test_proof__of_a_golden_request__is_accepted(
    vector: RequestVector, serve: Serve, store_for: StoreFor, engine: Engine
) -> None:
    await prove(vector, serve, store_for(vector), engine)


@pytest.mark.parametrize("vector", BATCHES)
@pytest.mark.sampled(2)
async def test_proof__of_a_golden_batch__is_accepted(
    vector: RequestVector, serve: Serve, store_for: StoreFor, engine: Engine
) -> None:
    await prove(vector, serve, store_for(vector), engine)


@pytest.mark.parametrize("vector", [parameter(vector) for vector in ASKED_OF_OTHERS])
@pytest.mark.sampled(4)
async def test_proof__of_each_kind__is_accepted_by_three_verifiers(
    vector: RequestVector,
    serve: Serve,
    store_for: StoreFor,
    engine: Engine,
    verifying_key_of: VerifyingKeyOf,
    reference_prover: Path,
    reference_keys_dir: Path,
    tmp_path: Path,
) -> None:
    store = store_for(vector)
    body = await prove(vector, serve, store, engine)
    key = verifying_key_of(store, vector.circuit)
    assert holds(key, json.loads(body), vector.public_inputs)
    carrier = reference_keys_dir / "inclusion_32_1.key"
    assert reference_accepts(reference_prover, carrier, tmp_path, key, body, vector.public_inputs)


async def test_proof__with_another_public_input__is_rejected_by_both_independent_verifiers(
    serve: Serve,
    published_keys: KeyStore,
    verifying_key_of: VerifyingKeyOf,
    reference_prover: Path,
    reference_keys_dir: Path,
    tmp_path: Path,
) -> None:
    vector = vector_named("prover/v1_inclusion_26_1")
    client = await serve(published_keys)
    body = await (await client.post("/prove", data=vector.body)).read()
    key = verifying_key_of(published_keys, vector.circuit)
    other = (vector.public_inputs[0], vector.public_inputs[1] + 1)
    carrier = reference_keys_dir / "inclusion_32_1.key"
    assert not holds(key, json.loads(body), other)
    assert not reference_accepts(reference_prover, carrier, tmp_path, key, body, other)


async def test_proof__under_a_key_of_gnark_0_14__is_accepted_under_the_published_key(
    serve: Serve,
    later_format_keys: KeyStore,
    published_keys: KeyStore,
    verifying_key_of: VerifyingKeyOf,
    reference_prover: Path,
    reference_keys_dir: Path,
    tmp_path: Path,
) -> None:
    vector = vector_named("gnark/inclusion_32_1")
    client = await serve(later_format_keys)
    response = await client.post("/prove", data=vector.body)
    body = await response.read()
    assert response.status == 200, body
    key = verifying_key_of(published_keys, CONVERTED)
    assert holds(key, json.loads(body), vector.public_inputs)
    carrier = reference_keys_dir / "inclusion_32_1.key"
    assert reference_accepts(reference_prover, carrier, tmp_path, key, body, vector.public_inputs)


async def test_proof__of_the_same_request__differs_every_time(serve: Serve, published_keys: KeyStore) -> None:
    client = await serve(published_keys)
    vector = vector_named("prover/v2_inclusion_32_1")
    bodies = {await (await client.post("/prove", data=vector.body)).read() for _ in range(3)}
    assert len(bodies) == 3


@pytest.mark.parametrize("vector", [parameter(vector) for vector in PROVABLE])
def test_witness__of_a_golden_request__has_the_digests_of_the_reference(
    vector: RequestVector, store_for: StoreFor
) -> None:
    if vector.witness_sha256 is None:
        return
    task = read_task(read_envelope(vector.body), known=None)
    key = store_for(vector).get(task.circuit, CancelFlag())
    witness = key.solve(task.assignment.inputs)
    assert hashlib.sha256(witness.wires).hexdigest() == vector.witness_sha256
    if vector.circuit == "batch_append_32_10":
        return  # its sides are those of gnark 0.14, which has ten constraints fewer
    for side, digest in ((witness.a, vector.a_sha256), (witness.b, vector.b_sha256), (witness.c, vector.c_sha256)):
        assert digest is None or hashlib.sha256(side).hexdigest() == digest


@pytest.mark.parametrize("name", ["inclusion_32_1", "mainnet_inclusion_26_1", "non-inclusion_40_1"])
def test_proof__without_blinding__is_the_golden_proof(name: str, published_keys: KeyStore) -> None:
    golden = load(f"gnark/{name}.json")
    body = json.dumps(golden["request"]).encode()
    task = read_task(read_envelope(body), known=None)
    key = published_keys.get(task.circuit, CancelFlag())
    proof = key.prove(task.assignment.inputs, blinding=UNBLINDED)
    assert proof.points == read_proof(json.dumps(golden["unblinded"]).encode())
