"""Many requests, large requests, equal requests: what is shared, what waits, what is refused."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from golden_vectors import vector_named
from in_process_service import Serve, circuit, sample, state_of, until
from structlog.testing import capture_logs

from prover.errors import Cancelled, DeviceUnavailable
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import LoadedKey
from prover.keys.catalogue.selection import CircuitSelection
from prover.keys.store.key_store import KeyStore
from prover.proving.proof_making import Proof
from prover.proving.request import ProofTask
from prover.proving.service import OnPhase, Phase, ProvingService
from shared.requests.circuit_id import CircuitId, CircuitKind

VECTOR = vector_named("prover/v2_inclusion_32_1")
BODY = VECTOR.body
IDEMPOTENT = {"Idempotency-Key": "batch-7"}


def variant(number: int) -> bytes:
    """Return the same request as other bytes."""
    return json.dumps(VECTOR.request | {"unknown": number}).encode()


async def test_requests__equal_at_once__share_one_proof(serve: Serve, published_keys: KeyStore) -> None:
    client = await serve(published_keys, proving={"max_concurrency": 1, "merkle_deadline_s": 120})
    state = state_of(client)
    with state.admission.permit(CircuitKind.INCLUSION, CancelFlag()):
        # Whether a client names its request, and how, makes no difference.
        headers = [{}, *({"Idempotency-Key": f"client-{number}"} for number in range(7))]
        tasks = [asyncio.ensure_future(client.post("/prove", data=BODY, headers=names)) for names in headers]
        await until(lambda: sample(state, "prover_shared_proofs_total", way="joined") == 7)
        assert len(state.proofs_in_progress.running) == 1
    responses = await asyncio.gather(*tasks)
    assert {response.status for response in responses} == {200}
    assert len({await response.read() for response in responses}) == 1
    assert sample(state, "prover_proof_generation_duration_seconds_count", circuit_type="inclusion") == 1
    assert sample(state, "prover_proof_requests_total", circuit_type="inclusion", status="ok") == 8
    again = await client.post("/prove", data=BODY)
    assert await again.read() != await responses[0].read()


async def test_client__leaving_a_shared_proof__does_not_end_it_for_others(
    serve: Serve, published_keys: KeyStore
) -> None:
    client = await serve(published_keys, proving={"max_concurrency": 1, "merkle_deadline_s": 120})
    state = state_of(client)
    with state.admission.permit(CircuitKind.INCLUSION, CancelFlag()):
        first = asyncio.ensure_future(client.post("/prove", data=BODY))
        await until(lambda: bool(state.proofs_in_progress.running))
        second = asyncio.ensure_future(client.post("/prove", data=BODY))
        await until(lambda: sample(state, "prover_shared_proofs_total", way="joined") == 1)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await until(
            lambda: sample(state, "prover_proof_requests_total", circuit_type="inclusion", status="timeout") == 1
        )
        assert not next(iter(state.proofs_in_progress.running)).cancel.is_raised
    assert (await second).status == 200


async def test_client__the_last_of_a_shared_proof_leaving__ends_it(serve: Serve, published_keys: KeyStore) -> None:
    client = await serve(published_keys, proving={"max_concurrency": 1})
    state = state_of(client)
    with state.admission.permit(CircuitKind.INCLUSION, CancelFlag()):
        tasks = [asyncio.ensure_future(client.post("/prove", data=BODY)) for _ in range(3)]
        await until(lambda: sample(state, "prover_shared_proofs_total", way="joined") == 2)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await until(lambda: not state.proofs_in_progress.running)
        assert not state.proofs_in_progress._by_digest
    assert (await client.post("/prove", data=BODY)).status == 200


async def test_idempotency_key__repeated__replays_the_proof(serve: Serve, published_keys: KeyStore) -> None:
    client = await serve(published_keys)
    first = await client.post("/prove", data=BODY, headers=IDEMPOTENT)
    second = await client.post("/prove", data=BODY, headers=IDEMPOTENT)
    assert (first.status, second.status) == (200, 200)
    assert await first.read() == await second.read()
    assert "Idempotency-Replayed" not in first.headers
    assert second.headers["Idempotency-Replayed"] == "true"
    other = await client.post("/prove", data=variant(1), headers=IDEMPOTENT)
    assert (other.status, (await other.json())["code"]) == (422, "idempotency_key_reused")
    bad = await client.post("/prove", data=BODY, headers={"Idempotency-Key": "two words"})
    assert (bad.status, (await bad.json())["code"]) == (400, "malformed_body")


async def test_idempotency_key__of_a_failed_request__may_be_used_again(serve: Serve, published_keys: KeyStore) -> None:
    client = await serve(published_keys)
    assert (await client.post("/prove", data=b'{"circuitType":"inclusion"}', headers=IDEMPOTENT)).status == 400
    bad = json.dumps(VECTOR.request | {"publicInputHash": "0x1"})
    assert (await client.post("/prove", data=bad, headers=IDEMPOTENT)).status == 400
    assert (await client.post("/prove", data=BODY, headers=IDEMPOTENT)).status == 200


async def test_proof__larger_than_the_memory__is_refused_permanently(serve: Serve, published_keys: KeyStore) -> None:
    client = await serve(published_keys, proving={"working_memory_bytes": 2**20})
    response = await client.post("/prove", data=BODY)
    problem = await response.json()
    assert (response.status, problem["code"], problem["retryable"]) == (503, "out_of_memory", False)
    for word in ("MiB of working memory", "the budget is 1 MiB", "add memory", "smaller batches"):
        assert word in problem["message"]
    assert "503" not in problem["message"]
    assert "Retry-After" not in response.headers
    assert sample(state_of(client), "prover_rejected_requests_total", reason="out_of_memory") == 1


async def test_proofs__beyond_the_memory__wait_and_are_all_made(serve: Serve, published_keys: KeyStore) -> None:
    need = published_keys.get(circuit(VECTOR.circuit), CancelFlag()).scratch_bytes
    proving = {"max_concurrency": 4, "working_memory_bytes": need + need // 2, "merkle_deadline_s": 120}
    client = await serve(published_keys, proving=proving)
    responses = await asyncio.gather(*(client.post("/prove", data=variant(number)) for number in range(6)))
    assert [response.status for response in responses] == [200] * 6
    assert sample(state_of(client), "prover_admission_memory_bytes", part="lent") == 0
    assert sample(state_of(client), "prover_proof_peak_memory_bytes", circuit_type="inclusion") == need


async def test_proof__that_finds_no_place_in_time__is_503_not_408(serve: Serve, published_keys: KeyStore) -> None:
    client = await serve(published_keys, proving={"max_concurrency": 1, "merkle_deadline_s": 0.2})
    with state_of(client).admission.permit(CircuitKind.INCLUSION, CancelFlag()):
        response = await client.post("/prove", data=BODY)
    problem = await response.json()
    assert (response.status, problem["code"]) == (503, "overloaded")
    assert "503" in problem["message"]
    assert int(response.headers["Retry-After"]) >= 1


async def test_proof__that_takes_too_long__is_408_and_its_log_line_names_the_setting(
    serve: Serve, published_keys: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prove(_: ProvingService, __: ProofTask, cancel: CancelFlag, on_phase: OnPhase) -> Proof:
        on_phase(Phase.PROVING)
        while not cancel.is_raised:
            time.sleep(0.01)
        raise Cancelled

    monkeypatch.setattr(ProvingService, "prove", prove)
    client = await serve(published_keys, proving={"merkle_deadline_s": 0.2})
    with capture_logs() as lines:
        response = await client.post("/prove", data=BODY)
    problem = await response.json()
    assert (response.status, problem["message"]) == (408, "Proof generation timed out after 0.2 seconds.")
    (finished,) = (line for line in lines if line["event"] == "request_finished")
    assert finished["code"] == "proof_timeout"
    assert "PROVER_PROVING__MERKLE_DEADLINE_S" in finished["remedy"]


async def test_bodies__together_too_large__are_refused_and_forgotten(serve: Serve, published_keys: KeyStore) -> None:
    http = dict.fromkeys(("body_memory_bytes", "body_limit_bytes"), 2 * len(BODY))
    client = await serve(published_keys, http=http, proving={"max_concurrency": 1})
    state = state_of(client)
    with state.admission.permit(CircuitKind.INCLUSION, CancelFlag()):
        waiting = asyncio.ensure_future(client.post("/prove", data=BODY))
        await until(lambda: bool(state.proofs_in_progress.running))
        assert state.bodies.used_bytes == len(BODY)
        response = await client.post("/prove", data=b" " * (len(BODY) + 1))
        assert (response.status, (await response.json())["code"]) == (503, "overloaded")
        assert (await client.post("/prove", data=BODY[:-10])).status == 400
    assert (await waiting).status == 200
    assert state.bodies.used_bytes == 0


async def test_circuit__switched_off__is_503_without_a_retry(serve: Serve, published_keys: KeyStore) -> None:
    client = await serve(published_keys)
    state_of(client).selection = CircuitSelection(frozenset({circuit("v1_inclusion_26_1")}))
    response = await client.post("/prove", data=BODY)
    problem = await response.json()
    assert (response.status, problem["code"], problem["retryable"]) == (503, "circuit_disabled", False)
    assert "v2_inclusion_32_1" in problem["message"]
    assert "Retry-After" not in response.headers
    assert (await client.post("/prove", data=vector_named("prover/v1_inclusion_26_1").body)).status == 200


@pytest.fixture
def loading(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Keys stay in loading until this is set."""
    loaded = threading.Event()
    lease = KeyStore.lease

    @contextmanager
    def slow_lease(store: KeyStore, wanted: CircuitId, cancel: CancelFlag) -> Iterator[LoadedKey]:
        loaded.wait(120)
        with lease(store, wanted, cancel) as key:
            yield key

    monkeypatch.setattr(KeyStore, "lease", slow_lease)
    return loaded


async def test_key__loading_too_long__is_503_and_its_time_is_not_the_proofs(
    serve: Serve, published_keys: KeyStore, loading: threading.Event
) -> None:
    client = await serve(published_keys, proving={"key_wait_s": 0.2, "merkle_deadline_s": 60})
    response = await client.post("/prove", data=BODY)
    problem = await response.json()
    assert (response.status, problem["code"], problem["retryable"]) == (503, "key_loading", True)
    assert "503" in problem["message"]
    patient = await serve(published_keys, proving={"key_wait_s": 60, "merkle_deadline_s": 30})
    task = asyncio.ensure_future(patient.post("/prove", data=BODY))
    await until(lambda: bool(state_of(patient).proofs_in_progress.running))
    loading.set()
    assert (await task).status == 200


async def test_requests__more_than_there_are_threads__are_refused(
    serve: Serve, published_keys: KeyStore, loading: threading.Event
) -> None:
    published_keys.get(circuit(VECTOR.circuit), CancelFlag())
    client = await serve(published_keys, proving={"max_concurrency": 1, "waiting_limit": 1, "merkle_deadline_s": 120})
    tasks = [asyncio.ensure_future(client.post("/prove", data=variant(number))) for number in range(2)]
    await until(lambda: len(state_of(client).proofs_in_progress.running) == 2)
    response = await client.post("/prove", data=variant(2))
    assert (response.status, (await response.json())["code"]) == (503, "overloaded")
    loading.set()
    assert [response.status for response in await asyncio.gather(*tasks)] == [200, 200]


async def test_requests__waiting_for_a_key__leave_threads_for_keys_that_are_loaded(
    serve: Serve, published_keys: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = vector_named("prover/v1_inclusion_26_1")
    published_keys.get(circuit(loaded.circuit), CancelFlag())
    may_load, lease, found = threading.Event(), KeyStore.lease, KeyStore.loaded

    def is_absent(wanted: CircuitId) -> bool:
        return wanted == circuit(VECTOR.circuit) and not may_load.is_set()

    @contextmanager
    def slow_lease(store: KeyStore, wanted: CircuitId, cancel: CancelFlag) -> Iterator[LoadedKey]:
        if is_absent(wanted):
            may_load.wait(120)
        with lease(store, wanted, cancel) as key:
            yield key

    monkeypatch.setattr(KeyStore, "lease", slow_lease)
    monkeypatch.setattr(KeyStore, "loaded", lambda store, asked: None if is_absent(asked) else found(store, asked))
    client = await serve(published_keys, proving={"max_concurrency": 1, "waiting_limit": 3, "merkle_deadline_s": 120})
    running = state_of(client).proofs_in_progress.running
    tasks = [asyncio.ensure_future(client.post("/prove", data=variant(number))) for number in range(3)]
    try:
        await until(lambda: len(running) == 3)
        response = await client.post("/prove", data=variant(3))
        problem = await response.json()
        assert (response.status, problem["code"], problem["retryable"]) == (503, "key_loading", True)
        assert "503" in problem["message"]
        assert int(response.headers["Retry-After"]) >= 1
        assert (await client.post("/prove", data=loaded.body)).status == 200
    finally:
        may_load.set()
    assert [response.status for response in await asyncio.gather(*tasks)] == [200] * 3


async def test_device__that_failed__is_reported_until_a_proof_succeeds(
    serve: Serve, published_keys: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await serve(published_keys)

    def fail(*_: object) -> None:
        raise DeviceUnavailable("no random bytes")

    with monkeypatch.context() as patched:
        patched.setattr(LoadedKey, "prove", fail)
        assert (await client.post("/prove", data=BODY)).status == 503
    assert state_of(client).devices.problem() == "no random bytes"
    assert (await client.post("/prove", data=BODY)).status == 200
    assert state_of(client).devices.problem() is None
