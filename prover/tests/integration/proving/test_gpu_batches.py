"""Requests that a service proves together on a GPU in software, with a real key; and what each of them gets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from in_process_service import Client, Serve, VerifyingKeyOf, open_store, queue_on, sample, state_of, until, working
from independent_groth16 import holds
from redis_server import RedisServer

from prover.cli.main import cli
from prover.cli.random_requests import RandomRequests
from prover.http.state import ServerState
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine
from prover.keys.store.key_store import KeyStore
from prover.settings import DeviceSettings
from shared.requests.circuit_id import CircuitId, CircuitKind
from shared.requests.proof_wire import encode_request

LITTLE = CircuitId(CircuitKind.INCLUSION, 2, (2,), (1,))
"""A circuit that nobody publishes: a GPU in software takes seconds for those that are."""
KNOWN_IN = ("prover.http.routes.prove", "prover.http.routes.submit", "prover.worker.attempts")
BODIES = [encode_request(RandomRequests(f"gpu {number}").make(LITTLE)) for number in range(4)]


@pytest.fixture(scope="module")
def little_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a key of the little circuit."""
    folder = tmp_path_factory.mktemp("little")
    outputs = ("--output", str(folder / LITTLE.key_file), "--output-vkey", str(folder / "little.vkey"))
    shape = ("--circuit", "inclusion", "--inclusion-tree-height", "2", "--inclusion-compressed-accounts", "1")
    answer = CliRunner().invoke(cli, ["setup", *shape, *outputs])
    assert answer.exit_code == 0, answer.output
    return folder


@pytest.fixture
def little_keys(little_folder: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[KeyStore]:
    """The key store of a server that knows the little circuit."""
    for module in KNOWN_IN:
        monkeypatch.setattr(f"{module}.PUBLISHED_CIRCUITS", frozenset({LITTLE}))
    store = open_store(little_folder, engine)
    yield store
    store.close()


def gpu(policy: str, library: Path) -> DeviceSettings:
    return DeviceSettings(device=policy, cuda_library=library)


async def prove(client: Client, body: bytes) -> tuple[int, Any]:
    response = await client.post("/prove", data=body)
    return response.status, await response.json()


async def waiting(state: ServerState, requests: int) -> None:
    """Wait until so many wait for a permit or a launch."""
    await until(lambda: state.admission.waiting == requests)


async def gathered(client: Client, bodies: list[bytes]) -> list[tuple[int, Any]]:
    """Return answers to requests that one call of the GPU proves. The server has one permit."""
    state = state_of(client)
    with state.admission.permit(CircuitKind.INCLUSION, CancelFlag()):
        asked = []
        for body in bodies:
            asked.append(asyncio.create_task(prove(client, body)))
            await waiting(state, len(asked))
    return await asyncio.gather(*asked)


ONE_PERMIT = {"max_concurrency": 1, "merkle_deadline_s": 300}


async def test_requests__that_wait_for_a_gpu__are_proved_in_one_call_and_each_gets_its_own_proof(
    serve: Serve, little_keys: KeyStore, verifying_key_of: VerifyingKeyOf, cuda_host_library: Path
) -> None:
    client = await serve(little_keys, device=gpu("cuda", cuda_host_library), proving=ONE_PERMIT)
    state = state_of(client)
    answers = await gathered(client, BODIES)
    assert [status for status, _ in answers] == [200] * len(BODIES)
    assert len({json.dumps(proof) for _, proof in answers}) == len(BODIES)
    key = verifying_key_of(little_keys, LITTLE.name)
    inputs = [(int(json.loads(body)["publicInputHash"], 16),) for body in BODIES]
    assert holds(key, answers[-1][1], inputs[-1])  # each was verified here; this one elsewhere, too
    assert sample(state, "prover_device_launch_proofs_count", device="cuda:0") == 1
    assert sample(state, "prover_device_launch_proofs_sum", device="cuda:0") == len(BODIES)
    assert sample(state, "prover_device_proofs_total", device="cuda:0") == len(BODIES)


async def test_request__whose_client_leaves_while_it_waits__costs_the_others_nothing(
    serve: Serve, little_keys: KeyStore, cuda_host_library: Path
) -> None:
    client = await serve(little_keys, device=gpu("cuda", cuda_host_library), proving=ONE_PERMIT)
    state = state_of(client)
    with state.admission.permit(CircuitKind.INCLUSION, CancelFlag()):
        asked = []
        for body in BODIES:
            asked.append(asyncio.create_task(prove(client, body)))
            await waiting(state, len(asked))
        asked[1].cancel()  # its client hangs up
        await waiting(state, len(asked) - 1)
    answers = await asyncio.gather(asked[0], *asked[2:])
    assert [status for status, _ in answers] == [200] * (len(BODIES) - 1)
    assert sample(state, "prover_device_launch_proofs_sum", device="cuda:0") == len(BODIES) - 1


@pytest.mark.parametrize(
    ("fault", "reason", "failed"), [("prove=lost@1", "lost", len(BODIES)), ("prove=wrong@1", "wrong_proof", 1)]
)
async def test_fault_of_a_call__under_auto__leads_to_proofs_of_the_cpu(
    serve: Serve,
    little_keys: KeyStore,
    cuda_host_library: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    reason: str,
    failed: int,
) -> None:
    monkeypatch.setenv("GROTH16_CUDA_HOST_FAULTS", fault)
    client = await serve(little_keys, device=gpu("auto", cuda_host_library), proving=ONE_PERMIT)
    state = state_of(client)
    answers = await gathered(client, BODIES)
    assert [status for status, _ in answers] == [200] * len(BODIES)
    assert sample(state, "prover_device_proofs_total", device="cpu") == failed
    assert sample(state, "prover_device_faults_total", device="cuda:0", reason=reason) == failed
    assert sample(state, "prover_device_fallbacks_total", reason=reason) == failed


async def test_fault_of_a_call__under_cuda__refuses_the_requests_that_it_cost(
    serve: Serve, little_keys: KeyStore, cuda_host_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROTH16_CUDA_HOST_FAULTS", "prove=out_of_memory@1+")
    client = await serve(little_keys, device=gpu("cuda", cuda_host_library), proving=ONE_PERMIT)
    answers = await gathered(client, BODIES)
    refused = [(status, problem["code"], problem["retryable"]) for status, problem in answers]
    assert refused == [(503, "device_out_of_memory", True)] * len(BODIES)
    assert sample(state_of(client), "prover_device_proofs_total", device="cpu") == 0


async def test_job__next_to_requests_of_the_same_process__is_proved_with_them(
    serve: Serve, little_keys: KeyStore, redis_database: RedisServer, cuda_host_library: Path
) -> None:
    async with queue_on(redis_database.url) as (connection, store):
        client = await serve(little_keys, store, device=gpu("cuda", cuda_host_library), proving=ONE_PERMIT)
        state = state_of(client)
        async with working(connection, store, state):
            with state.admission.permit(CircuitKind.INCLUSION, CancelFlag()):
                asked = []
                for body in BODIES[:3]:
                    asked.append(asyncio.create_task(prove(client, body)))
                    await waiting(state, len(asked))
                status, job = await prove_later(client, BODIES[3])
                await waiting(state, 4)
            answers = await asyncio.gather(*asked)
            path = f"/prove/status?job_id={job['job_id']}&wait=60"
            while (job := await (await client.get(path)).json())["status"] in ("queued", "processing"):
                pass
    assert status == 202
    assert job["status"] == "completed", job
    assert [status for status, _ in answers] == [200] * 3
    assert sample(state, "prover_device_launch_proofs_count", device="cuda:0") == 1
    assert sample(state, "prover_device_launch_proofs_sum", device="cuda:0") == 4


async def prove_later(client: Client, body: bytes) -> tuple[int, Any]:
    """Submit a job."""
    response = await client.post("/prove?async=true", data=body)
    return response.status, await response.json()
