"""Prechecks against the keys of the reference: the verdict of a key's solver, before the key is loaded."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path

import pytest
from golden_vectors import BATCH, PUBLISHED, SCALAR_MODULUS, RequestVector, provable_with, vector_named
from in_process_service import Serve, circuit
from prometheus_client import CollectorRegistry

from prover.cli.random_requests import RandomRequests
from prover.errors import WitnessRejected
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine
from prover.keys.store.key_store import KeyStore
from prover.observability.metrics import Metrics
from prover.proving import service
from prover.proving.admission import Admission
from prover.proving.assignment import Assignment
from prover.proving.prechecks.satisfiable import require_satisfiable
from prover.proving.request import ProofTask, read_envelope, read_task
from prover.proving.service import Phase, ProvingService
from shared.requests.proof_wire import encode_request

FAULTS = 4
"""Changed inputs per request."""


def verdicts(store: KeyStore, task: ProofTask) -> tuple[bool, bool]:
    """Return True for prechecks that accept the inputs, and True for a key's solver that does."""
    accepted: list[bool] = []
    key = store.get(task.circuit, CancelFlag())
    for judge in (lambda: require_satisfiable(task), lambda: key.solve(task.assignment.inputs)):
        try:
            judge()
        except WitnessRejected:
            accepted.append(False)
        else:
            accepted.append(True)
    return accepted[0], accepted[1]


def assert_agreement(store: KeyStore, golden: RequestVector, faults: int) -> None:
    task = read_task(read_envelope(golden.body), known=None)
    assert verdicts(store, task) == (True, True)
    choose = random.Random(golden.name)
    size = len(task.assignment.inputs) // 32
    for _ in range(faults):
        inputs = bytearray(task.assignment.inputs)
        for place in choose.sample(range(size), choose.choice((1, 1, 2, 3))):
            value = choose.choice((choose.randrange(SCALAR_MODULUS), choose.randrange(1 << 41), 0, 1))
            inputs[32 * place : 32 * place + 32] = value.to_bytes(32, "big")
        expected, found = verdicts(store, ProofTask(task.circuit, Assignment(bytes(inputs), b"", ())))
        assert expected == found


@pytest.mark.parametrize("golden", provable_with(PUBLISHED), ids=lambda golden: golden.name)
@pytest.mark.sampled(18)
def test_verdict__with_a_published_key__is_that_of_its_solver(published_keys: KeyStore, golden: RequestVector) -> None:
    assert_agreement(published_keys, golden, FAULTS)


async def test_batch__of_production_size__is_refused_for_its_fault_before_its_key_is_missed(
    serve: Serve, published_keys: KeyStore
) -> None:
    client = await serve(published_keys)
    request = json.loads(encode_request(RandomRequests("production").make(circuit("batch_append_32_500"))))
    response = await client.post("/prove", data=io.BytesIO(json.dumps(request).encode()))
    assert (response.status, (await response.json())["code"]) == (503, "key_not_found")
    request["merkleProofs"][123][0] = "0x2a"
    response = await client.post("/prove", data=io.BytesIO(json.dumps(request).encode()))
    problem = await response.json()
    assert (response.status, problem["code"]) == (400, "proving_error")
    assert problem["path"] == "$.merkleProofs[123]"
    assert problem["message"].startswith("error proving: ")
    assert "constraint" not in problem


@pytest.mark.reference_batch_keys
@pytest.mark.parametrize("golden", provable_with(BATCH), ids=lambda golden: golden.name)
@pytest.mark.sampled(4)
def test_verdict__with_a_batch_key__is_that_of_its_solver(batch_keys: KeyStore, golden: RequestVector) -> None:
    assert_agreement(batch_keys, golden, 2)


@pytest.mark.parametrize("permits", [1, 0])
@pytest.mark.parametrize("loaded", [True, False])
def test_prove__wrong_member__is_named_and_checked_before_the_solver_only_if_the_proof_would_wait(
    keys_dir: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch, loaded: bool, permits: int
) -> None:
    metrics = Metrics(CollectorRegistry())
    store = KeyStore(keys_dir, engine, metrics)
    golden = vector_named("prover/v2_inclusion_32_1")
    right, wrong = (read_task(read_envelope(body), known=None) for body in (golden.body, with_wrong_root(golden.body)))
    if loaded:
        store.get(right.circuit, CancelFlag())
    checked: list[ProofTask] = []

    def check(task: ProofTask) -> None:
        checked.append(task)
        require_satisfiable(task)

    monkeypatch.setattr(service, "require_satisfiable", check)
    proving = ProvingService(store, Admission(permits, 0, metrics), metrics)
    phases: list[Phase] = []
    try:
        with pytest.raises(WitnessRejected) as refusal:
            proving.prove(wrong, CancelFlag(), phases.append)
        assert refusal.value.path == "$.publicInputHash"
        assert (Phase.PROVING in phases) == (loaded and bool(permits))
        assert checked == [wrong]
        if permits:
            proving.prove(right, CancelFlag())
            assert checked == ([wrong] if loaded else [wrong, right])
    finally:
        store.close()


def with_wrong_root(body: bytes) -> bytes:
    request = json.loads(body)
    request["inputCompressedAccounts"][0]["root"] = "0x2a"
    return json.dumps(request).encode()
