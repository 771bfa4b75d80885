"""A Redis that answers, and refuses writes: the cause in answers, the readiness probe, the log and the metrics."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from golden_vectors import vector_named
from in_process_service import Serve, queue_on, state_of
from queue_instances import nodes_on, until
from redis_server import RedisServer, StartRedis
from structlog.testing import capture_logs

from prover.http.routes.probes import probes
from prover.keys.store.key_store import KeyStore

UPDATE = vector_named("prover/batch_update_32_10")
JOB = "/prove/status?job_id=00000000-0000-4000-8000-000000000000"


def fill(server: RedisServer, client: Any) -> Callable[[], object]:
    client.config_set("maxmemory", 1)
    return lambda: client.config_set("maxmemory", 0)


def demote(server: RedisServer, client: Any) -> Callable[[], object]:
    client.replicaof("127.0.0.1", 1)
    return lambda: client.replicaof("no", "one")


def fail_snapshot(server: RedisServer, client: Any) -> Callable[[], object]:
    folder = server.folder / "dump.rdb"  # a snapshot is a file under this name
    folder.mkdir()
    client.config_set("save", "3600 1")

    def save(outcome: str) -> None:
        client.bgsave()
        deadline = time.monotonic() + 60
        while client.info("persistence")["rdb_last_bgsave_status"] != outcome:
            assert time.monotonic() < deadline
            time.sleep(0.02)

    save("err")

    def mend() -> None:
        folder.rmdir()
        save("ok")

    return mend


def lose_replicas(server: RedisServer, client: Any) -> Callable[[], object]:
    client.config_set("min-replicas-to-write", 1)
    return lambda: client.config_set("min-replicas-to-write", 0)


@pytest.mark.parametrize(
    ("break_", "cause", "remedy"),
    [
        (fill, "its memory is full", "maxmemory"),
        (demote, "it is a replica", "--redis-url"),
        (fail_snapshot, "it cannot save its data", "disk"),
        (lose_replicas, "it has fewer replicas than it needs", "min-replicas-to-write"),
    ],
)
async def test_redis__that_refuses_writes__is_reported_with_the_cause_until_it_accepts_them(
    serve: Serve,
    published_keys: KeyStore,
    redis_start: StartRedis,
    break_: Callable[[RedisServer, Any], Callable[[], object]],
    cause: str,
    remedy: str,
) -> None:
    server = redis_start()
    async with queue_on(server.url) as (_, store), nodes_on(server.url) as start:
        api = await serve(published_keys, store)
        node = start(work=False)
        checks = probes(state_of(api))
        await until(lambda: node.sample("redis_up") == 1)
        with server.client() as client:
            mend = break_(server, client)
            ready, line = await asyncio.to_thread(checks["/readyz"])
            assert not ready
            assert f"Redis refuses writes because {cause}" in line
            assert checks["/livez"]()[0]
            assert (await api.get(JOB)).status == 404
            with capture_logs() as logs:
                assert not (await asyncio.to_thread(checks["/readyz"]))[0]
                await until(lambda: node.sample("redis_up") == 0)
            causes = {(entry["cause"], remedy in entry["remedy"]) for entry in logs if "cause" in entry}
            assert causes == {(cause, True)}
            assert "redis_unreachable" not in {entry["event"] for entry in logs}
            await asyncio.to_thread(mend)
        assert (await asyncio.to_thread(checks["/readyz"]))[0]
        await until(lambda: node.sample("redis_up") == 1)
        assert (await api.post("/prove", data=UPDATE.body)).status == 202


@pytest.mark.parametrize(
    ("break_", "cause"),
    [
        (demote, "Redis refuses writes because it is a replica"),
        (fail_snapshot, "Redis refuses writes because it cannot save its data"),
        (lose_replicas, "Redis refuses writes because it has fewer replicas than it needs"),
        (fill, "nine tenths of the memory of Redis are in use"),
    ],
)
async def test_submission__to_a_redis_that_refuses_writes__is_answered_with_the_cause(
    serve: Serve,
    published_keys: KeyStore,
    redis_start: StartRedis,
    break_: Callable[[RedisServer, Any], Callable[[], object]],
    cause: str,
) -> None:
    server = redis_start()
    async with queue_on(server.url) as (_, store):
        api = await serve(published_keys, store)
        with server.client() as client:
            break_(server, client)
            response = await api.post("/prove", data=UPDATE.body)
            problem = await response.json()
    assert (response.status, problem["code"], problem["retryable"]) == (503, "queue_unavailable", True)
    assert cause in problem["message"]


async def test_check__of_the_queue__is_one_command_that_leaves_nothing(redis_start: StartRedis) -> None:
    server = redis_start(appendonly=True)
    async with queue_on(server.url) as (_, store):
        await store.check()
        with server.client() as client:
            written = [path.read_bytes() for path in sorted((server.folder / "appendonlydir").glob("*.aof"))]
            client.config_resetstat()
            for _ in range(3):
                await store.check()
            statistics: Any = client.info("commandstats")
            assert statistics["cmdstat_evalsha"]["calls"] == 3
            assert not client.keys()
        assert [path.read_bytes() for path in sorted((server.folder / "appendonlydir").glob("*.aof"))] == written


async def test_check__by_a_user_with_the_documented_rights__holds(redis_start: StartRedis) -> None:
    server = redis_start()
    with server.client() as client:
        rights, keys = ["+@all", "-@dangerous", "+info", "+dbsize"], ["{zkc-prover}:*", "arq:*"]
        client.acl_setuser("prover", enabled=True, passwords=["+secret"], keys=keys, commands=rights)
    async with queue_on(server.url.replace("//", "//prover:secret@")) as (_, store):
        await store.check()
