"""Jobs over HTTP with a real Redis; the test itself takes and ends jobs, so every state lasts as long as it wants."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from golden_vectors import vector_named
from in_process_service import Client, Serve, proof_of, sample, state_of, until
from queue_inspection import Inspection
from redis_server import RedisServer

from prover.http.routes import jobs
from prover.http.routes.queue import verdict
from prover.keys.catalogue.selection import CircuitSelection
from prover.keys.store.key_store import KeyStore
from prover.queue.circuit_queues import CircuitQueue
from prover.queue.jobs import CircuitQueueStats, Claim, LeaseState, QueueStats
from prover.queue.store import JobStore

MERKLE = vector_named("prover/v2_inclusion_32_1")
UPDATE = vector_named("prover/batch_update_32_10")
ADDRESS_APPEND = vector_named("prover/batch_address-append_40_10")
ASYNC = {"X-Async": "true"}


@pytest.fixture(scope="module")
def proof(published_keys: KeyStore) -> bytes:
    """The proof of the inclusion, as a worker stores it."""
    return proof_of(published_keys, MERKLE)


def batch(**members: Any) -> bytes:
    """Return the update request with further members."""
    return json.dumps(UPDATE.request | members).encode()


async def queue(client: Client, body: bytes = UPDATE.body, **options: Any) -> str:
    """Submit a request and give its job."""
    response = await client.post("/prove", data=body, **options)
    answer = await response.json()
    assert response.status == 202, answer
    return str(answer["job_id"])


async def status(client: Client, job_id: str, wait: str = "0") -> tuple[int, dict[str, Any]]:
    response = await client.get("/prove/status", params={"job_id": job_id, "wait": wait})
    answer: dict[str, Any] = await response.json()
    return response.status, answer


async def claim(store: JobStore, queue: CircuitQueue = CircuitQueue.UPDATE) -> Claim:
    claimed = await store.claim(queue, "test", None)
    assert claimed is not None
    return claimed


def moment(text: str) -> float:
    """Return unix seconds of an RFC 3339 time."""
    assert text.endswith("Z")
    return datetime.fromisoformat(text).astimezone(UTC).timestamp()


async def test_batch__submitted__is_answered_byte_for_byte(
    serve: Serve, published_keys: KeyStore, job_store: JobStore
) -> None:
    client = await serve(published_keys, job_store)
    response = await client.post("/prove", data=UPDATE.body, headers={"X-Sync": "true"})
    text = await response.text()
    job_id = json.loads(text)["job_id"]
    assert response.status == 202
    assert response.headers["Content-Type"] == "application/json"
    assert "X-Warning" not in response.headers
    assert uuid.UUID(job_id).version == 4
    assert text == (
        f'{{"circuit_type":"update","estimated_time":"10-30 seconds","job_id":"{job_id}",'
        '"message":"Proof generation queued for update circuit. Use status_url to check progress.",'
        f'"queue":"zk_update_queue","status":"queued","status_url":"/prove/status?job_id={job_id}"}}\n'
    )
    assert (await claim(job_store)).body == UPDATE.body


@pytest.mark.parametrize(
    ("body", "expected_queue", "circuit"),
    [
        (UPDATE.body, CircuitQueue.UPDATE, "batch_update_32_10"),
        (ADDRESS_APPEND.body, CircuitQueue.ADDRESS_APPEND, "batch_address-append_40_10"),
        (vector_named("prover/batch_append_32_10").body, CircuitQueue.APPEND, "batch_append_32_10"),
        (batch(batchSize=7), CircuitQueue.UPDATE, ""),
        (MERKLE.body, CircuitQueue.UPDATE, "v2_inclusion_32_1"),
        (b'{"circuitType":"foo","height":1}', CircuitQueue.UPDATE, ""),
    ],
    ids=["update", "address-append", "append", "no such size", "inclusion", "no such circuit"],
)
async def test_request__queued__is_in_the_queue_of_its_kind_under_its_circuit(
    serve: Serve, published_keys: KeyStore, job_store: JobStore, body: bytes, expected_queue: CircuitQueue, circuit: str
) -> None:
    client = await serve(published_keys, job_store)
    await queue(client, body, headers=ASYNC)
    claimed = await claim(job_store, expected_queue)
    assert (claimed.circuit, claimed.circuit_type) == (circuit, json.loads(body)["circuitType"])


async def test_tree_and_index__of_a_batch__decide_its_turn(
    serve: Serve, published_keys: KeyStore, job_store: JobStore
) -> None:
    client = await serve(published_keys, job_store)
    for index in (3, 1, 10**30, -7):
        await queue(client, batch(treeId="tree", batchIndex=index))
    assert [(await claim(job_store)).batch_index for _ in range(4)] == [1, 3, 2**53 - 1, -1]


async def test_equal_requests__100_at_once__are_one_job(
    serve: Serve, published_keys: KeyStore, job_store: JobStore
) -> None:
    client = await serve(published_keys, job_store)
    responses = await asyncio.gather(*(client.post("/prove", data=UPDATE.body) for _ in range(100)))
    answers = [await response.json() for response in responses]
    assert {response.status for response in responses} == {202}
    assert len({answer["job_id"] for answer in answers}) == 1
    assert sorted(answer["status"] for answer in answers) == ["already_queued"] * 99 + ["queued"]
    repeated = next(answer for answer in answers if answer["status"] == "already_queued")
    assert sorted(repeated) == ["circuit_type", "deduplicated", "job_id", "message", "queue", "status"]
    assert repeated["deduplicated"] is True
    await claim(job_store)
    assert await job_store.claim(CircuitQueue.UPDATE, "test", None) is None


async def test_job__from_queued_to_completed__says_where_it_is(
    serve: Serve, published_keys: KeyStore, job_store: JobStore, proof: bytes
) -> None:
    client = await serve(published_keys, job_store)
    job_id = await queue(client, MERKLE.body, headers=ASYNC)
    code, answer = await status(client, job_id)
    created = answer.pop("created_at")
    assert abs(moment(created) - time.time()) < 60
    assert (code, answer) == (
        202,
        {
            "circuit_type": "inclusion",
            "job_id": job_id,
            "message": "Job is queued and waiting to be processed",
            "status": "queued",
        },
    )
    claimed = await claim(job_store)
    code, answer = await status(client, job_id)
    assert (code, answer["status"], answer["message"]) == (202, "processing", "Job is currently being processed")
    assert moment(answer["created_at"]) >= moment(created)
    assert await job_store.finish(claimed, proof, 1234)
    code, answer = await status(client, job_id)
    assert (code, answer["status"]) == (200, "completed")
    assert answer["result"] == {"proof": json.loads(proof), "proof_duration_ms": 1234}


async def test_job__that_failed__is_answered_202_with_the_reason(
    serve: Serve, published_keys: KeyStore, job_store: JobStore
) -> None:
    client = await serve(published_keys, job_store)
    job_id = await queue(client)
    reason = "error proving: constraint #5 is not satisfied: 1 * 2 != 3"
    assert await job_store.fail(await claim(job_store), reason, deterministic=True)
    code, answer = await status(client, job_id)
    assert (code, answer["status"], answer["error"]) == (202, "failed", reason)
    assert answer["message"] == f"Job processing failed: {reason}"
    assert abs(moment(answer["failed_at"]) - time.time()) < 60
    assert await queue(client) == job_id  # the input is to blame


async def test_wait__for_a_change__ends_with_it(
    serve: Serve, published_keys: KeyStore, job_store: JobStore, proof: bytes
) -> None:
    client = await serve(published_keys, job_store)
    job_id = await queue(client, MERKLE.body, headers=ASYNC)
    waiting = asyncio.create_task(status(client, job_id, wait="60"))
    await asyncio.sleep(0.1)  # so that it is likely to wait; the outcome does not depend on it
    claimed = await claim(job_store)
    await job_store.finish(claimed, proof, 1)
    started = time.monotonic()
    assert (await waiting)[1]["status"] in ("processing", "completed")
    assert (await status(client, job_id, wait="59.5"))[0] == 200  # nothing will change any more
    assert time.monotonic() - started < 50


async def test_wait__without_a_change__ends_in_time(
    serve: Serve, published_keys: KeyStore, job_store: JobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "LONGEST_WAIT_S", 0.2)
    client = await serve(published_keys, job_store)
    job_id = await queue(client)
    started = time.monotonic()
    assert (await status(client, job_id, wait="86400"))[1]["status"] == "queued"
    assert 0.2 <= time.monotonic() - started < 60


async def test_wait__when_the_server_stops__ends_at_once(
    serve: Serve, published_keys: KeyStore, job_store: JobStore
) -> None:
    client = await serve(published_keys, job_store)
    job_id = await queue(client)
    waiting = asyncio.create_task(status(client, job_id, wait="60"))
    await asyncio.sleep(0.1)
    await state_of(client).drain()
    assert (await asyncio.wait_for(waiting, 30))[1]["status"] == "queued"
    refused = await client.post("/prove", data=batch(batchIndex=1))
    assert (refused.status, (await refused.json())["code"]) == (503, "shutting_down")
    assert (await status(client, job_id))[0] == 202


@pytest.mark.parametrize("wait", ["", "-1", "x", "1e3", "nan", "0x1", "1" * 10])
async def test_wait__that_is_no_number_of_seconds__is_refused(
    serve: Serve, published_keys: KeyStore, job_store: JobStore, wait: str
) -> None:
    client = await serve(published_keys, job_store)
    code, answer = await status(client, str(uuid.uuid4()), wait=wait)
    assert (code, answer["code"]) == (400, "malformed_body")


async def test_job__of_a_circuit_without_a_key_and_with_many_inputs__takes_no_memory_for_them(
    serve: Serve, published_keys: KeyStore, job_store: JobStore, redis_database: RedisServer
) -> None:
    client = await serve(published_keys, job_store)
    accounts = [{"root": "1", "leaf": "1"}] * 30_000
    body = {"circuitType": "inclusion", "stateTreeHeight": 26, "inputCompressedAccounts": accounts}
    job_id = await queue(client, json.dumps(body).encode(), headers=ASYNC)
    await job_store.fail(await claim(job_store), "no key", deterministic=True)
    code, answer = await status(client, job_id)
    assert (code, answer["status"]) == (202, "failed")
    with redis_database.client() as redis:
        used = [int(str(redis.memory_usage(name))) for name in redis.scan_iter("*")]
    assert sum(used) < 20_000


async def test_cancel__of_a_waiting_job__ends_it(serve: Serve, published_keys: KeyStore, job_store: JobStore) -> None:
    client = await serve(published_keys, job_store)
    job_id = await queue(client)
    response = await client.delete("/prove/status", params={"job_id": job_id})
    answer = await response.json()
    assert (response.status, answer["status"]) == (202, "failed")
    assert answer["error"].startswith("cancelled")
    assert await job_store.claim(CircuitQueue.UPDATE, "test", None) is None
    assert await queue(client) != job_id


async def test_cancel__of_a_running_job__asks_its_worker(
    serve: Serve, published_keys: KeyStore, job_store: JobStore
) -> None:
    client = await serve(published_keys, job_store)
    job_id = await queue(client)
    claimed = await claim(job_store)
    response = await client.delete("/prove/status", params={"job_id": job_id})
    assert (response.status, (await response.json())["status"]) == (202, "processing")
    assert await job_store.heartbeat([claimed]) == [LeaseState.CANCELLED]


async def test_cancel__of_a_finished_job__changes_nothing(
    serve: Serve, published_keys: KeyStore, job_store: JobStore, proof: bytes
) -> None:
    client = await serve(published_keys, job_store)
    job_id = await queue(client, MERKLE.body, headers=ASYNC)
    await job_store.finish(await claim(job_store), proof, 1)
    response = await client.delete("/prove/status", params={"job_id": job_id})
    assert (response.status, (await response.json())["status"]) == (200, "completed")
    response = await client.delete("/prove/status", params={"job_id": str(uuid.uuid4())})
    assert (response.status, (await response.json())["code"]) == (404, "job_not_found")


async def test_circuit__switched_off_here__is_queued_for_others(
    serve: Serve, published_keys: KeyStore, job_store: JobStore
) -> None:
    client = await serve(published_keys, job_store, CircuitSelection(frozenset()))
    assert (await client.post("/prove", data=MERKLE.body)).status == 503
    await queue(client, MERKLE.body, headers=ASYNC)
    await queue(client)


async def test_unknown_circuit__large__has_no_place_in_the_queue(
    serve: Serve, published_keys: KeyStore, job_store: JobStore
) -> None:
    client = await serve(published_keys, job_store)
    body = b'{"circuitType":"foo","height":1,"x":"' + b"x" * 2**17 + b'"}'
    for path in ("/prove?async=true", "/queue/add"):
        response = await client.post(path, data=body)
        assert (response.status, (await response.json())["message"]) == (
            400,
            "unknown circuit type: foo at $.circuitType",
        )


@pytest.mark.parametrize(
    "members",
    [
        {"treeId": "last_tree", "batchIndex": 0},
        {"treeId": "a:b{c}*\\n\\u0000\u00fc\U0001f600", "batchIndex": 1.5},
        {"treeId": "x" * 50_000, "batchIndex": 1e300},
        {"treeId": "", "batchIndex": -1e300},
        {"treeId": 5, "batchIndex": "1"},
        {"treeId": ["a"], "batchIndex": True},
        {"treeId": None, "batchIndex": None},
        {"treeId": "\udc80", "circuitType": "\udc80"},
        {"circuitType": "up\x00date\n\u00fc\U0001f600" + "x" * 1000},
        {"circuitType": "UPDATE"},
    ],
    ids=str,
)
async def test_members__that_are_odd__harm_nothing(
    serve: Serve, published_keys: KeyStore, job_store: JobStore, members: dict[str, Any]
) -> None:
    client = await serve(published_keys, job_store)
    body = json.dumps({"circuitType": "update", "height": 32} | members)
    assert (await client.post("/prove?async=true", data=body)).status in (202, 400)
    response = await client.post("/queue/add", data=body)
    assert response.status in (202, 400), await response.text()
    if response.status == 202:
        job_id = (await response.json())["job_id"]
        assert (await status(client, job_id))[1]["status"] == "queued"
        assert (await claim(job_store)).job_id == job_id
        assert (await status(client, job_id))[1]["status"] == "processing"
    await queue(client, batch(treeId="tree"))
    counts = await (await client.get("/queue/stats")).json()
    assert counts["total_pending"] == 1
    assert (await claim(job_store)).tree_id == "tree"


async def test_roles__with_keys__keep_add_and_cleanup_for_administrators(
    serve: Serve, published_keys: KeyStore, job_store: JobStore
) -> None:
    client = await serve(published_keys, job_store, http={"api_keys": "forester=forester-key,ops:admin=operator-key"})
    forester, operator = {"X-API-Key": "forester-key"}, {"X-API-Key": "operator-key"}
    for path, allowed in (("/queue/add", 202), ("/queue/cleanup", 200)):
        assert (await client.post(path, data=UPDATE.body)).status == 401
        refused = await client.post(path, data=UPDATE.body, headers=forester)
        assert (refused.status, (await refused.json())["code"]) == (403, "forbidden")
        assert (await client.post(path, data=UPDATE.body, headers=operator)).status == allowed
    assert (await client.get("/queue/stats", headers=forester)).status == 200
    assert (await client.get("/queue/health", headers=forester)).status == 200
    job_id = await queue(client, MERKLE.body, headers=forester | ASYNC)
    assert (await client.get(f"/prove/status?job_id={job_id}")).status == 401
    assert (await client.delete(f"/prove/status?job_id={job_id}", headers=forester)).status == 202


async def test_cleanup__of_a_request_that_is_too_old__ends_it_and_is_counted(
    serve: Serve, published_keys: KeyStore, job_store: JobStore, redis_database: RedisServer
) -> None:
    client = await serve(published_keys, job_store)
    job_id = await queue(client)
    with redis_database.client() as redis:
        Inspection(redis).age(job_id, 3601)
    response = await client.post("/queue/cleanup")
    outcomes = await response.json()
    assert (response.status, isinstance(outcomes.pop("timestamp"), int)) == (200, True)
    assert list(outcomes.values()) == [{"success": True}] * 4
    code, job = await status(client, job_id)
    assert (code, job["status"]) == (202, "failed")
    assert job["message"].startswith("Job processing failed: job expired after 1h")
    state = state_of(client)
    for kind, swept in (("old_requests", 1), ("stuck", 0), ("failed", 0), ("results", 0)):
        assert sample(state, "prover_queue_sweeps_total", kind=kind) == 1
        assert sample(state, "prover_queue_swept_jobs_total", kind=kind) == swept


async def test_role__without_a_queue__does_not_name_missing_paths(serve: Serve, published_keys: KeyStore) -> None:
    client = await serve(published_keys, http={"api_keys": "forester=forester-key"})
    assert (await client.post("/queue/add", headers={"X-API-Key": "forester-key"})).status == 404


async def test_counts__of_waiting_jobs__distinguish_those_of_trees(
    serve: Serve, published_keys: KeyStore, job_store: JobStore
) -> None:
    client = await serve(published_keys, job_store)
    await queue(client)
    for index in range(3):
        await queue(client, batch(treeId="a", batchIndex=index))
    await queue(client, batch(treeId="b"))
    await queue(client, ADDRESS_APPEND.body)
    await claim(job_store, CircuitQueue.ADDRESS_APPEND)
    counts = await (await client.get("/queue/stats")).json()
    assert counts["queues"]["zk_update_queue"] == 1
    assert counts["queues"]["zk_update_queue_tree_subqueues"] == 4
    assert counts["queues"]["zk_update_queue_tree_count"] == 2
    assert counts["queues"]["zk_address_append_processing_queue"] == 1
    assert (counts["total_pending"], counts["total_active"], counts["total_failed"]) == (5, 1, 0)
    health = await (await client.get("/queue/health")).json()
    assert health["queue_lengths"] == counts["queues"]
    assert (health["total_pending"], health["total_processing"], health["status"]) == (5, 1, "healthy")


def test_verdict__weighs_failures_above_long_jobs() -> None:
    def counted(*, failed: int, stuck: int) -> QueueStats:
        counts = CircuitQueueStats(0, 0, 0, 0, stuck, 0, (), 0, 0)
        return QueueStats({CircuitQueue.UPDATE: counts}, failed=failed, results=0, timestamp=0)

    assert verdict(counted(failed=50, stuck=0)) == "healthy"
    assert verdict(counted(failed=50, stuck=1)) == "degraded"
    assert verdict(counted(failed=51, stuck=1)) == "unhealthy"


async def test_submission__is_counted_with_its_size(
    serve: Serve, published_keys: KeyStore, job_store: JobStore
) -> None:
    client = await serve(published_keys, job_store)
    state = state_of(client)
    await queue(client)
    await queue(client)
    await client.post("/queue/add", data=b'{"circuitType":"foo","height":1}')
    assert sample(state, "prover_proof_requests_total", circuit_type="update", status="queued") == 2
    assert sample(state, "prover_circuit_input_size_bytes_count", circuit_type="update") == 2
    assert sample(state, "prover_proof_requests_total", circuit_type="unknown", status="queued") == 1
    await client.post("/queue/add", data=b"{}")
    assert sample(state, "prover_proof_requests_total", circuit_type="unknown", status="client_error") == 1


async def test_client__that_stops_waiting__leaves_nothing_behind(
    serve: Serve, published_keys: KeyStore, job_store: JobStore
) -> None:
    client = await serve(published_keys, job_store)
    job_id = await queue(client)
    before = len(asyncio.all_tasks())
    waiting = asyncio.create_task(status(client, job_id, wait="60"))
    await until(lambda: len(asyncio.all_tasks()) > before + 2)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await until(lambda: len(asyncio.all_tasks()) <= before)
