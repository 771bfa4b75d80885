"""The HTTP service apart from its wire cases: routes, limits, deadlines, overload, shutdown, unexpected failures."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from typing import Any

import pytest
from aiohttp import ClientConnectionError
from golden_vectors import vector_named
from in_process_service import Client, Listen, Serve, circuit, sample, state_of, until

from prover.errors import ProofRejected
from prover.http.app import split_address
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import VerifyingKey
from prover.keys.store.key_store import KeyStore
from prover.proving.service import ProvingService
from shared.requests.circuit_id import CircuitKind

SMALL = vector_named("prover/v1_inclusion_26_1")
LARGE = vector_named("circuits/v2_inclusion_32_4")


async def until_idle(client: Client) -> None:
    """Wait until no thread works for a request any more."""
    await until(lambda: not state_of(client).proofs_in_progress.running)


async def test_health__asked__answers_byte_for_byte(serve: Serve, published_keys: KeyStore) -> None:
    client = await serve(published_keys)
    response = await client.get("/health")
    assert (response.status, await response.read()) == (200, b'{"status":"ok"}')
    assert response.headers["Content-Type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    "path", ["/", "/nope", "/prove/", "/prove/status", "/queue/stats", "/queue/health", "/queue/cleanup", "/queue/add"]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_path__unknown_without_a_queue__is_404(
    serve: Serve, published_keys: KeyStore, method: str, path: str
) -> None:
    client = await serve(published_keys)
    response = await client.request(method, path)
    assert (response.status, await response.text()) == (404, "404 page not found\n")
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Content-Type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/prove"),
        ("PUT", "/prove"),
        ("OPTIONS", "/prove"),
        ("POST", "/health"),
        ("HEAD", "/health"),
        ("DELETE", "/health"),
    ],
)
async def test_method__wrong__is_405_without_body_or_allow(
    serve: Serve, published_keys: KeyStore, method: str, path: str
) -> None:
    client = await serve(published_keys)
    response = await client.request(method, path)
    assert (response.status, await response.read()) == (405, b"")
    assert "Allow" not in response.headers
    assert not any(name.startswith("Access-Control") for name in response.headers)


async def test_request_id__given__comes_back(serve: Serve, published_keys: KeyStore) -> None:
    client = await serve(published_keys)
    response = await client.post("/prove", data=b"{}", headers={"X-Request-Id": "abc-1"})
    assert response.headers["X-Request-Id"] == "abc-1"
    assert (await response.json())["instance"] == "urn:zkc:request:abc-1"
    response = await client.post("/prove", data=b"{}", headers={"X-Request-Id": "a b<script>"})
    assert response.headers["X-Request-Id"] != "a b<script>"


@pytest.mark.parametrize("header", ["X-Async", "X-Sync"])
async def test_async_header__without_a_queue__changes_nothing(
    serve: Serve, published_keys: KeyStore, header: str
) -> None:
    client = await serve(published_keys)
    response = await client.post("/prove?async=true", data=SMALL.body, headers={header: "true"})
    assert response.status == 200


async def test_body__larger_than_the_limit__is_413(serve: Serve, published_keys: KeyStore) -> None:
    client = await serve(published_keys, http={"body_limit_bytes": 10_000})
    response = await client.post("/prove", data=b" " * 10_001)
    assert response.status == 413
    assert (await response.json())["code"] == "body_too_large"

    async def chunks() -> Any:
        for _ in range(11):
            yield b" " * 1000

    response = await client.post("/prove", data=chunks())
    assert response.status == 413
    assert (await client.post("/prove", data=SMALL.body)).status == 200


async def test_body__arriving_too_slowly__is_408(serve: Serve, published_keys: KeyStore) -> None:
    client = await serve(published_keys, http={"body_timeout_s": 0.1})

    async def chunks() -> Any:
        yield b"{"
        await asyncio.sleep(1)
        yield b"}"

    try:
        response = await client.post("/prove", data=chunks())
    except ClientConnectionError:
        return  # the server hung up before the client had finished
    assert response.status == 408
    assert (await response.json())["code"] == "request_timeout"


async def test_deadline__passed__is_408_and_the_kernel_stops(serve: Serve, published_keys: KeyStore) -> None:
    client = await serve(published_keys)
    assert (await client.post("/prove", data=LARGE.body)).status == 200  # loads the key
    hurried = await serve(published_keys, proving={"merkle_deadline_s": 0.03})
    response = await hurried.post("/prove", data=LARGE.body)
    while response.status == 503:  # a busy machine may not begin the proof in time
        response = await hurried.post("/prove", data=LARGE.body)
    problem = await response.json()
    assert response.status == 408
    assert problem["code"] == "proof_timeout"
    assert problem["message"] == "Proof generation timed out after 0.03 seconds."
    await until_idle(hurried)
    assert sample(state_of(hurried), "prover_proof_requests_total", circuit_type="inclusion", status="timeout") == 1
    assert sample(state_of(hurried), "prover_active_jobs") == 0
    assert sample(state_of(hurried), "prover_proof_generation_duration_seconds_count", circuit_type="inclusion") in (
        None,
        0,
    )


@pytest.mark.reference_batch_keys
async def test_deadline__in_a_long_proof__ends_it_long_before_its_end(serve: Serve, batch_keys: KeyStore) -> None:
    batch = vector_named("prover/batch_update_32_10")
    batch_keys.get(circuit(batch.circuit), CancelFlag())
    client = await serve(batch_keys)

    async def seconds(client: Client, status: int) -> float:
        started = time.perf_counter()
        assert (await client.post("/prove", data=batch.body)).status == status
        await until_idle(client)
        return time.perf_counter() - started

    whole_s = await seconds(client, 200)
    hurried = await serve(batch_keys, proving={"batch_deadline_s": whole_s / 10})
    # Other load may occupy the CPUs for a while: one try of several must show it.
    assert min([await seconds(hurried, 408) for _ in range(5)]) < whole_s * 0.7


async def test_kernel__while_it_proves__lets_other_threads_run(serve: Serve, published_keys: KeyStore) -> None:
    client = await serve(published_keys)
    await client.post("/prove", data=LARGE.body)  # loads the key
    proof = asyncio.ensure_future(client.post("/prove", data=LARGE.body))
    ticks = 0
    while not proof.done():
        await asyncio.sleep(0.001)
        ticks += 1
    assert (await proof).status == 200
    assert ticks >= 20


async def test_client__leaving_while_it_waits__frees_its_place(serve: Serve, published_keys: KeyStore) -> None:
    client = await serve(published_keys, proving={"max_concurrency": 1})
    state = state_of(client)
    with state.admission.permit(CircuitKind.INCLUSION, CancelFlag()):
        task = asyncio.ensure_future(client.post("/prove", data=SMALL.body))
        await until(lambda: state.admission.waiting > 0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until_idle(client)
        assert state.admission.waiting == 0
    assert (await client.post("/prove", data=SMALL.body)).status == 200
    assert sample(state_of(client), "prover_proof_requests_total", circuit_type="inclusion", status="timeout") == 1


async def test_requests__many_at_once__all_get_proofs(serve: Serve, published_keys: KeyStore) -> None:
    client = await serve(published_keys, proving={"max_concurrency": 2, "merkle_deadline_s": 120})
    names = ("v1_inclusion_26_1", "v2_inclusion_32_1", "v1_non-inclusion_26_1", "v2_non-inclusion_40_1")
    requests = [vector_named(f"prover/{name}").request for name in names]
    bodies = [json.dumps(request | {"unknown": turn}).encode() for turn in range(4) for request in requests]
    bad = [b"{}", SMALL.body.replace(b'"pathIndex": ', b'"pathIndex": 1')] * 4
    responses = await asyncio.gather(*(client.post("/prove", data=body) for body in bodies + bad))
    assert [response.status for response in responses] == [200] * 16 + [400] * 8
    assert len({await response.read() for response in responses[:16]}) == 16
    assert sample(state_of(client), "prover_active_jobs") == 0
    assert sample(state_of(client), "prover_proof_generation_duration_seconds_count", circuit_type="inclusion") == 8


async def test_request__beyond_the_waiting_limit__is_503_with_retry_after(
    serve: Serve, published_keys: KeyStore
) -> None:
    client = await serve(published_keys, proving={"max_concurrency": 1, "waiting_limit": 0})
    with state_of(client).admission.permit(CircuitKind.INCLUSION, CancelFlag()):
        response = await client.post("/prove", data=SMALL.body)
    problem = await response.json()
    assert response.status == 503
    assert (problem["code"], problem["retryable"]) == ("overloaded", True)
    assert "503" in problem["message"]
    assert int(response.headers["Retry-After"]) >= 1
    assert sample(state_of(client), "prover_proof_requests_total", circuit_type="inclusion", status="rejected") == 1


async def test_request__while_draining__is_503(serve: Serve, published_keys: KeyStore) -> None:
    client = await serve(published_keys)
    state_of(client).draining = True
    response = await client.post("/prove", data=SMALL.body)
    assert response.status == 503
    assert (await response.json())["code"] == "shutting_down"
    assert (await client.get("/health")).status == 200


async def test_drain__past_its_deadline__cancels_what_runs(serve: Serve, published_keys: KeyStore) -> None:
    client = await serve(published_keys, proving={"max_concurrency": 1}, http={"drain_deadline_s": 0.05})
    state = state_of(client)
    with state.admission.permit(CircuitKind.INCLUSION, CancelFlag()):
        task = asyncio.ensure_future(client.post("/prove", data=SMALL.body))
        await until(lambda: state.admission.waiting > 0)
        await state.drain()
        response = await task
    assert response.status == 503
    assert (await response.json())["code"] == "shutting_down"


async def test_key__of_a_published_circuit_absent__is_503_with_the_remedy(
    serve: Serve, published_keys: KeyStore
) -> None:
    client = await serve(published_keys)
    request = vector_named("prover/v1_inclusion_26_1").request
    request["inputCompressedAccounts"] *= 8
    response = await client.post("/prove", data=json.dumps(request))
    problem = await response.json()
    assert response.status == 503
    assert problem["code"] == "key_not_found"
    assert "proving key file not found: v1_inclusion_26_8.key" in problem["message"]
    assert "keys directory" in problem["message"]
    assert "503" in problem["message"]
    assert "Retry-After" in response.headers


async def test_failure__unforeseen__is_a_counted_500_without_details(
    serve: Serve, published_keys: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await serve(published_keys)

    def fail(*_: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(ProvingService, "prove", fail)
    response = await client.post("/prove", data=SMALL.body)
    text = await response.text()
    assert response.status == 500
    assert json.loads(text)["code"] == "unexpected_error"
    assert "secret" not in text
    assert sample(state_of(client), "prover_proof_panics_total", circuit_type="inclusion") == 1
    assert sample(state_of(client), "prover_proof_requests_total", circuit_type="inclusion", status="error") == 1


async def test_proof__that_does_not_verify__never_leaves(
    serve: Serve, published_keys: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await serve(published_keys)

    def reject(*_: object) -> None:
        raise ProofRejected

    monkeypatch.setattr(VerifyingKey, "verify", reject)
    response = await client.post("/prove", data=SMALL.body)
    assert response.status == 500
    assert "ar" not in await response.json()


async def test_metrics__after_a_proof__report_its_cost(serve: Serve, published_keys: KeyStore) -> None:
    client = await serve(published_keys)
    await client.post("/prove", data=SMALL.body)
    kind = {"circuit_type": "inclusion"}
    assert sample(state_of(client), "prover_proof_requests_total", **kind, status="ok") == 1
    assert sample(state_of(client), "prover_circuit_proof_size_bytes_sum", **kind) == 579
    assert sample(state_of(client), "prover_circuit_input_size_bytes_sum", **kind) == len(SMALL.body)
    for stage in ("witness", "ntt", "msm_sort", "msm_a", "msm_b1", "msm_b2", "msm_k", "msm_z", "assemble"):
        assert sample(state_of(client), "prover_proof_stage_seconds_count", **kind, stage=stage) == 1
    assert (sample(state_of(client), "prover_proof_memory_usage_bytes_sum", **kind) or 0) > 1_000_000


@pytest.mark.parametrize("address", ["127.0.0.1:0", ":0", "[::]:0"])
async def test_connections__while_the_event_loop_is_busy__wait(
    listen: Listen, published_keys: KeyStore, address: str
) -> None:
    _, port = await listen(published_keys, http={"address": address})
    with contextlib.ExitStack() as stack:
        for _ in range(500):  # without a pause in which the loop could accept them
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("127.0.0.1:3001", ("127.0.0.1", 3001)),
        (":3001", ("", 3001)),
        ("[::1]:0", ("::1", 0)),
        ("localhost:65535", ("localhost", 65535)),
    ],
)
def test_address__of_a_listener__is_split(address: str, parts: tuple[str, int]) -> None:
    assert split_address(address) == parts


@pytest.mark.parametrize("query", ["", "?async=true"])
async def test_request__to_a_server_without_a_queue__is_not_read_for_a_job(
    serve: Serve, published_keys: KeyStore, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("there is no queue")

    monkeypatch.setattr("prover.http.routes.submit.read_public_inputs", fail)
    client = await serve(published_keys)
    assert (await client.post(f"/prove{query}", data=SMALL.body)).status == 200
