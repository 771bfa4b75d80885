"""Keys of the queue that another program has overwritten with values of an unexpected type."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from golden_vectors import vector_named
from in_process_service import Serve, queue_on, state_of
from queue_inspection import KEYS, Queue
from redis_server import RedisServer
from structlog.testing import capture_logs

from prover.errors import QueueUnusable
from prover.http.routes.probes import probes
from prover.keys.store.key_store import KeyStore
from prover.queue.circuit_queues import CircuitQueue
from prover.queue.jobs import JobState, Submission, SweepKind
from prover.settings import QueueSettings

UPDATE = vector_named("prover/batch_update_32_10")
OWN_KEYS = ("job:", "body:", "digest:", "claim:")
"""Beginnings of the names of keys that belong to one job, or to one call."""
FOREIGN = "of nobody"


@pytest.fixture
async def queue(redis_database: RedisServer) -> AsyncIterator[Queue]:
    queue = Queue(redis_database, QueueSettings(lease_s=600))
    yield queue
    await queue.close()
    await queue.connection.close()
    queue.client.close()


async def fill(queue: Queue) -> None:
    """Leave a waiting, a running, a failed and a completed job, and a waiting one that this worker cannot claim."""
    for number in range(4):
        await queue.submit(Submission("update", "a", f"{number}".encode(), tree_id="tree"))
    assert await queue.finish(await queue.claimed(), b"proof", 1)
    assert await queue.fail(await queue.claimed(), "no", deterministic=True)
    await queue.claimed()
    while await queue.claim(CircuitQueue.UPDATE, "worker", frozenset({"b"})) is not None:
        pass
    await queue.sweep(SweepKind.STUCK, "sweeper", 600)


async def test_key__of_another_type__is_named_whichever_it_is(queue: Queue) -> None:
    await fill(queue)
    wake_queues = {KEYS.timer_queue, *(KEYS.wake_queue(each) for each in CircuitQueue)}  # replaced by sweeps
    names = {name for name in queue.look.names_under("") if not name.startswith(OWN_KEYS)}
    names -= {name.removeprefix(KEYS.prefix) for name in wake_queues}
    assert {"zk_update_queue:pending", "zk_update_queue:bytes", "sequence", "results", "failed"} <= names
    await queue.check()
    for key in map(queue.look.key, names):
        queue.client.rename(key, FOREIGN)
        queue.client.lpush(key, "x")
        with pytest.raises(QueueUnusable, match=key) as damage:
            await queue.check()
        assert "is a list" in damage.value.detail
        queue.client.rename(FOREIGN, key)
    await queue.check()


@pytest.mark.parametrize("name", ["zk_update_queue:pending", "zk_update_queue:bytes", "sequence"])
async def test_key__of_another_type__is_named_to_client_and_operator_until_it_is_removed(
    serve: Serve, published_keys: KeyStore, redis_database: RedisServer, name: str
) -> None:
    key = KEYS.prefix + name
    async with queue_on(redis_database.url) as (_, store):
        client = await serve(published_keys, store)
        ready = probes(state_of(client))["/readyz"]
        with redis_database.client() as stranger:
            stranger.hset(key, "x", "y")
            with capture_logs() as logs:
                response = await client.post("/prove", data=UPDATE.body)
                problem = await response.json()
            assert (response.status, problem["code"]) == (503, "queue_unavailable")
            assert f"{key} of the job queue was overwritten" in problem["message"]
            is_ready, line = await asyncio.to_thread(ready)
            assert not is_ready
            assert f"{key} of the job queue was overwritten" in line
            assert "does not answer" not in line
            [event] = [line for line in logs if line["event"] == "queue_key_overwritten"]
            assert (event["log_level"], event["key"], event["found"]) == ("error", key, "hash")
            assert "RENAME or DEL" in event["remedy"]
            assert not [line for line in logs if line["event"] == "queue_unavailable"]
            stranger.delete(key)
        assert (await client.post("/prove", data=UPDATE.body)).status == 202
        assert (await asyncio.to_thread(ready))[0]


async def test_body__of_another_type__fails_its_job_and_no_other(queue: Queue) -> None:
    lost, other = [(await queue.submit(Submission("update", "", body))).job_id for body in (b"1", b"2")]
    queue.client.delete(queue.look.key(f"body:{lost}"))
    queue.client.lpush(queue.look.key(f"body:{lost}"), "x")
    assert (await queue.claimed()).job_id == other
    assert await queue.state(lost) == (JobState.FAILED, "the body of this job was lost; submit it again")


async def test_digest__of_another_type__is_replaced_by_the_next_submission(queue: Queue) -> None:
    first = (await queue.submit(Submission("update", "", b"1"))).job_id
    key = queue.look.key("digest:" + queue.look.job(first)["digest"])
    queue.client.delete(key)
    queue.client.lpush(key, "x")
    assert await queue.finish(await queue.claimed(), b"proof", 1)
    again = await queue.submit(Submission("update", "", b"1"))
    assert not again.duplicate
    assert (await queue.submit(Submission("update", "", b"1"))).job_id == again.job_id != first
