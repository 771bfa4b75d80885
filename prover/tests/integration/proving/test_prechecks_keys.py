"""Prechecks against the keys of the reference: the verdict of a key's solver, before the key is loaded."""

from __future__ import annotations

import io
import json
import random

import pytest
from golden_vectors import BATCH, PUBLISHED, SCALAR_MODULUS, RequestVector, provable_with
from in_process_service import Serve, circuit

from prover.cli.random_requests import RandomRequests
from prover.errors import WitnessRejected
from prover.kernel.cancellation import CancelFlag
from prover.keys.store.key_store import KeyStore
from prover.proving.assignment import Assignment
from prover.proving.prechecks.satisfiable import require_satisfiable
from prover.proving.request import ProofTask, read_envelope, read_task
from shared.proof_wire import encode_request

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
