"""Answers over HTTP while Redis is unreachable, slow or full, and when it is back."""

from __future__ import annotations

import asyncio

import pytest
from golden_vectors import vector_named
from in_process_service import Client, Serve, queue_on, sample, state_of
from redis_server import StartRedis

from prover.http.routes.probes import probes
from prover.keys.store.key_store import KeyStore
from prover.settings import QueueSettings

MERKLE = vector_named("prover/v2_inclusion_32_1")
UPDATE = vector_named("prover/batch_update_32_10")
ASYNC = {"X-Async": "true"}
JOB = "/prove/status?job_id=00000000-0000-4000-8000-000000000000"
REQUESTS = [("POST", "/prove"), ("POST", "/queue/add"), ("GET", JOB), ("DELETE", JOB)]
REQUESTS += [("GET", "/queue/stats"), ("GET", "/queue/health")]


async def readiness(client: Client) -> tuple[bool, str]:
    """Return the answer of ``/readyz``."""
    return await asyncio.to_thread(probes(state_of(client))["/readyz"])


@pytest.mark.parametrize("how", ["dead", "hung"])
async def test_redis__unreachable__is_reported_and_small_circuits_are_proved_at_once(
    serve: Serve, published_keys: KeyStore, redis_start: StartRedis, how: str
) -> None:
    redis = redis_start()
    async with queue_on(redis.url) as (_, store):
        client = await serve(published_keys, store, proving={"merkle_deadline_s": 120})
        assert (await readiness(client))[0]
        if how == "dead":
            redis.kill()
            await assert_answers_without_redis(client, REQUESTS)
            redis.start()
        else:
            with redis.paused():
                await assert_answers_without_redis(client, REQUESTS[:1])  # each takes its time
        assert (await client.post("/prove", data=UPDATE.body)).status == 202
        assert (await readiness(client))[0]


async def assert_answers_without_redis(client: Client, requests: list[tuple[str, str]]) -> None:
    ready, line = await readiness(client)
    assert not ready
    assert "queue" in line
    assert "--redis-url" in line
    for method, path in requests:
        response = await client.request(method, path, data=UPDATE.body if method == "POST" else None)
        problem = await response.json()
        assert (response.status, problem["code"]) == (503, "queue_unavailable"), path
        assert "503" in problem["message"]
        assert int(response.headers["Retry-After"]) >= 1
    rejected = sample(state_of(client), "prover_rejected_requests_total", reason="queue_unavailable")
    assert rejected == sum(method == "POST" for method, _ in requests)
    response = await client.post("/prove", data=MERKLE.body, headers=ASYNC)
    assert (response.status, sorted(await response.json())) == (200, ["ar", "bs", "krs"])


async def test_redis__unreachable__leaves_answers_that_need_none(
    serve: Serve, published_keys: KeyStore, redis_start: StartRedis
) -> None:
    redis = redis_start()
    async with queue_on(redis.url) as (_, store):
        client = await serve(published_keys, store)
        redis.kill()
        response = await client.post("/prove?async=true", data=b'{"circuitType":"foo","height":1}')
        assert (response.status, (await response.json())["code"]) == (400, "malformed_body")
        response = await client.post("/queue/cleanup")
        sweeps = await response.json()
        assert response.status == 200
        assert not sweeps["stuck_jobs_cleanup"]["success"]
        assert sweeps["stuck_jobs_cleanup"]["error"]
        assert (await client.get("/prove/status?job_id=abc")).status == 400
        assert (await client.get("/health")).status == 200


async def test_queue__full__is_refused_for_a_while(
    serve: Serve, published_keys: KeyStore, redis_start: StartRedis
) -> None:
    async with queue_on(redis_start().url, QueueSettings(depth_limit=2)) as (_, store):
        client = await serve(published_keys, store)
        for blanks in (0, 1):
            assert (await client.post("/prove", data=UPDATE.body + b" " * blanks)).status == 202
        for path, body in (("/prove", UPDATE.body + b"  "), ("/queue/add", MERKLE.body)):
            response = await client.post(path, data=body)
            problem = await response.json()
            assert (response.status, problem["code"], problem["retryable"]) == (503, "queue_full", True)
            assert "503" in problem["message"]
            assert int(response.headers["Retry-After"]) >= 1
        assert (await client.post("/prove", data=MERKLE.body, headers=ASYNC)).status == 503
        assert (await client.post("/prove", data=UPDATE.body)).status == 202  # it is there already
        append = vector_named("prover/batch_append_32_10").body
        assert (await client.post("/prove", data=append)).status == 202
        assert sample(state_of(client), "prover_rejected_requests_total", reason="queue_full") == 3
