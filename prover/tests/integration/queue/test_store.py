"""Submissions, their status and their end, on a real Redis."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable

import pytest
from queue_inspection import KEYS, Queue
from redis_server import RedisServer, StartRedis

from prover.errors import QueueFull, QueueUnavailable
from prover.queue.circuit_queues import CircuitQueue, Network
from prover.queue.jobs import EventKind, JobState, JobStatus, LeaseState, Submission, SweepKind
from prover.settings import QueueSettings

REQUEST = Submission("update", "batch_update_32_10", b'{"a": 1}', "tree", 4)
WORKER = "worker"


@pytest.fixture
async def queue(redis_database: RedisServer) -> AsyncIterator[Queue]:
    queue = Queue(redis_database, QueueSettings(depth_limit=5, memory_limit_bytes=2000, lease_s=600))
    yield queue
    await queue.end()


async def test_job__from_submission_to_proof__shows_each_step(queue: Queue) -> None:
    submitted = await queue.submit(REQUEST)
    assert uuid.UUID(submitted.job_id).version == 4
    waiting = await queue.status(submitted.job_id)
    assert waiting is not None
    assert (waiting.state, waiting.circuit_type, waiting.queue) == (JobState.QUEUED, "update", CircuitQueue.UPDATE)
    assert (waiting.started_at, waiting.attempt, waiting.proof) == (None, 0, None)

    claim = await queue.claimed()
    assert (claim.job_id, claim.body, claim.tree_id, claim.batch_index) == (submitted.job_id, REQUEST.body, "tree", 4)
    assert (claim.circuit, claim.attempt, claim.submitted_at) == (REQUEST.circuit, 1, waiting.created_at)
    running = await queue.status(claim.job_id)
    assert running is not None
    assert running.started_at is not None
    assert (running.state, running.attempt) == (JobState.PROCESSING, 1)

    assert await queue.finish(claim, b'{"ar": []}', 1234)
    done = await queue.status(claim.job_id)
    assert done is not None
    assert (done.state, done.proof, done.duration_ms) == (JobState.COMPLETED, b'{"ar": []}', 1234)
    assert done.completed_at is not None
    assert done.created_at <= running.started_at <= done.completed_at
    assert queue.happened() == [EventKind.SUBMITTED, EventKind.CLAIMED, EventKind.COMPLETED]
    assert await queue.claim(CircuitQueue.UPDATE, WORKER, None) is None


async def test_status__of_an_unknown_job__is_none(queue: Queue) -> None:
    assert await queue.status(str(uuid.uuid4())) is None
    assert await queue.status("x" * 10**6) is None
    assert await queue.cancel("x" * 10**6) is None
    assert await queue.wait(str(uuid.uuid4()), 60) is None


async def test_submit__of_equal_bodies_at_once__makes_one_job(redis_database: RedisServer) -> None:
    servers = [Queue(redis_database, QueueSettings()) for _ in range(4)]
    answers = await asyncio.gather(*(server.submit(REQUEST) for server in servers for _ in range(25)))
    assert len({answer.job_id for answer in answers}) == 1
    assert Counter(answer.duplicate for answer in answers) == {False: 1, True: 99}
    assert (await servers[0].stats()).total_pending == 1
    for server in servers:
        await server.end()


async def test_submit__after_a_result__finds_it(queue: Queue) -> None:
    first = await queue.submit(REQUEST)
    await queue.finish(await queue.claimed(), b"proof", 1)
    assert await queue.submit(REQUEST) == type(first)(first.job_id, duplicate=True)


@pytest.mark.parametrize("deterministic", [True, False])
async def test_submit__after_a_failure__is_a_new_job_unless_the_input_was_to_blame(
    queue: Queue, deterministic: bool
) -> None:
    first = await queue.submit(REQUEST)
    assert await queue.fail(await queue.claimed(), "constraint #1 is not satisfied", deterministic=deterministic)
    second = await queue.submit(REQUEST)
    assert second.duplicate == (second.job_id == first.job_id) == deterministic
    assert await queue.state(first.job_id) == (JobState.FAILED, "constraint #1 is not satisfied")


async def test_submit__while_an_equal_job_is_being_cancelled__is_a_job_of_its_own(queue: Queue) -> None:
    first = await queue.submit(REQUEST)
    claim = await queue.claimed()
    status = await queue.cancel(first.job_id)
    assert status is not None
    assert (status.state, status.cancelling) == (JobState.PROCESSING, True)
    second = await queue.submit(REQUEST)
    assert second.job_id != first.job_id
    assert await queue.heartbeat([claim]) == [LeaseState.CANCELLED]
    assert await queue.fail(claim, "cancelled", deterministic=False)
    # The end of the first does not free the body of the second.
    assert await queue.submit(REQUEST) == type(first)(second.job_id, duplicate=True)


async def test_submit__to_a_full_queue__is_refused_and_leaves_nothing(queue: Queue) -> None:
    for number in range(5):
        await queue.submit(Submission("append", "", f"{number}".encode()))
    with pytest.raises(QueueFull) as refusal:
        await queue.submit(Submission("append", "", b"5"))
    assert refusal.value.retry_after_s > 0
    assert (await queue.submit(Submission("append", "", b"4"))).duplicate
    await queue.submit(Submission("update", "", b"5"))
    await queue.claimed(CircuitQueue.APPEND)
    await queue.submit(Submission("append", "", b"6"))


async def test_submit__of_more_bytes_than_a_queue_holds__is_refused_until_jobs_end(queue: Queue) -> None:
    await queue.submit(Submission("append", "", b"a" * 1500))
    claim = await queue.claimed(CircuitQueue.APPEND)
    with pytest.raises(QueueFull):
        await queue.submit(Submission("append", "", b"b" * 1500))
    await queue.finish(claim, b"proof", 1)
    await queue.submit(Submission("append", "", b"b" * 1500))


async def test_submit__with_overlong_texts__keeps_short_ones(queue: Queue) -> None:
    submitted = await queue.submit(Submission("k" * 10**6, "", b"1", "t\ud800" * 10**6, 10**30))
    status = await queue.status(submitted.job_id)
    assert status is not None
    assert (len(status.circuit_type), status.queue) == (64, CircuitQueue.UPDATE)
    claim = await queue.claimed()
    assert len(claim.tree_id) == 128
    assert claim.batch_index == 10**30
    assert await queue.fail(claim, "e" * 10**6, deterministic=True)
    assert len((await queue.state(submitted.job_id))[1] or "") == 4096


async def test_cancel__of_a_waiting_job__ends_it(queue: Queue) -> None:
    submitted = await queue.submit(REQUEST)
    status = await queue.cancel(submitted.job_id)
    assert status is not None
    assert (status.state, status.error) == (JobState.FAILED, "cancelled")
    assert await queue.claim(CircuitQueue.UPDATE, WORKER, None) is None
    assert not (await queue.submit(REQUEST)).duplicate


async def test_cancel__of_a_job_that_another_client_has_submitted_too__changes_nothing(queue: Queue) -> None:
    submitted = await queue.submit(REQUEST)
    assert (await queue.submit(REQUEST)).duplicate
    status = await queue.cancel(submitted.job_id)
    assert status is not None
    assert status.state is JobState.QUEUED
    claim = await queue.claimed()
    status = await queue.cancel(submitted.job_id)
    assert status is not None
    assert not status.cancelling
    assert await queue.finish(claim, b"proof", 1)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while True:
            if condition():
                return
            await asyncio.sleep(0.02)


async def waiters(queue: Queue, job_id: str, number: int) -> list[asyncio.Task[JobStatus | None]]:
    """Return clients that have seen the present job and wait for a change."""
    queue.client.config_resetstat()
    tasks = [asyncio.create_task(queue.wait(job_id, 300)) for _ in range(number)]
    await until(lambda: queue.client.info("commandstats").get("cmdstat_hmget", {"calls": 0})["calls"] >= number)
    return tasks


async def test_wait__for_a_job__returns_when_another_process_changes_it(
    queue: Queue, redis_database: RedisServer
) -> None:
    other = Queue(redis_database, QueueSettings())
    submitted = await queue.submit(REQUEST)
    waiting = await waiters(queue, submitted.job_id, 64)
    claim = await other.claimed()
    assert [status and status.state for status in await asyncio.gather(*waiting)] == [JobState.PROCESSING] * 64
    waiting = await waiters(queue, submitted.job_id, 64)
    assert queue.client.pubsub_numsub(KEYS.events) == [(KEYS.events.encode(), 1)]
    assert await other.finish(claim, b"proof", 1)
    assert [status and status.proof for status in await asyncio.gather(*waiting)] == [b"proof"] * 64
    await until(lambda: queue.client.pubsub_numsub(KEYS.events) == [(KEYS.events.encode(), 0)])
    await other.end()


async def test_wait__for_a_job_that_stays__returns_it_after_the_time(queue: Queue) -> None:
    submitted = await queue.submit(REQUEST)
    status = await queue.wait(submitted.job_id, 0.1)
    assert status is not None
    assert status.state is JobState.QUEUED


async def test_status__of_a_job_with_a_large_body__reads_a_small_hash_once(queue: Queue) -> None:
    submitted = await queue.submit(Submission("update", "", b"x" * 1500))
    with queue.client.monitor() as monitor:
        await queue.status(submitted.job_id)
        command = monitor.next_command()["command"]
    assert command.split()[:2] == ["HMGET", KEYS.job(submitted.job_id)]
    assert queue.client.memory_usage(KEYS.job(submitted.job_id)) < 1024


async def test_redis__whose_memory_is_full__refuses_jobs_and_ends_running_ones(redis_start: StartRedis) -> None:
    queue = Queue(redis_start("--maxmemory-policy", "noeviction"), QueueSettings(lease_s=600))
    await queue.submit(REQUEST)
    claim = await queue.claimed()
    queue.client.config_set("maxmemory", "1mb")
    with pytest.raises(QueueUnavailable):
        await queue.submit(Submission("update", "", b"another"))
    assert await queue.heartbeat([claim]) == [LeaseState.KEPT]
    assert await queue.finish(claim, b"proof", 1)
    assert (await queue.state(claim.job_id))[0] is JobState.COMPLETED
    queue.client.config_set("maxmemory", "0")
    assert not (await queue.submit(Submission("update", "", b"another"))).duplicate
    await queue.end()


async def test_redis__whose_memory_is_full__gets_room_by_sweeps_cancelling_and_jobs_handed_back(
    redis_start: StartRedis,
) -> None:
    queue = Queue(redis_start("--maxmemory-policy", "noeviction"), QueueSettings(lease_s=600))
    overdue, cancelled, running = [
        (await queue.submit(Submission("append", "", f"{number}".encode()))).job_id for number in range(3)
    ]
    queue.look.age(overdue, 3601)
    queue.client.config_set("maxmemory", "1mb")
    assert await queue.sweep(SweepKind.STUCK, "a", 60) == 1
    assert (await queue.state(overdue))[0] is JobState.FAILED
    await queue.cancel(cancelled)
    assert (await queue.state(cancelled))[0] is JobState.FAILED
    claim = await queue.claimed(CircuitQueue.APPEND)
    assert claim.job_id == running
    assert await queue.requeue(claim, count_attempt=False, reason="shutting down")
    claim = await queue.claimed(CircuitQueue.APPEND)
    await queue.cancel(running)
    assert await queue.heartbeat([claim]) == [LeaseState.CANCELLED]
    queue.client.config_set("maxmemory", "0")
    await queue.end()


async def test_redis__that_evicts__takes_jobs_although_it_is_full(redis_start: StartRedis) -> None:
    queue = Queue(redis_start("--maxmemory-policy", "allkeys-lru"), QueueSettings(lease_s=600))
    queue.client.set("other", b"x" * 2**20)
    queue.client.config_set("maxmemory", queue.client.info("memory")["used_memory"])
    assert not (await queue.submit(REQUEST)).duplicate
    await queue.end()


async def test_submit__with_a_circuit_that_no_catalogue_names__is_a_bug(queue: Queue) -> None:
    with pytest.raises(ValueError, match="not a name of a circuit"):
        await queue.submit(Submission("update", "a|b", b"1"))


async def test_wait__while_redis_is_killed__reports_it_and_finds_the_job_again(redis_start: StartRedis) -> None:
    server = redis_start(appendonly=True)
    queue = Queue(server, QueueSettings(lease_s=600))
    submitted = await queue.submit(REQUEST)
    waiting = await waiters(queue, submitted.job_id, 2)
    server.kill()
    assert [type(answer) for answer in await asyncio.gather(*waiting, return_exceptions=True)] == [QueueUnavailable] * 2
    server.start()
    waiting = await waiters(queue, submitted.job_id, 2)
    claim = await queue.claimed()
    assert [status and status.state for status in await asyncio.gather(*waiting)] == [JobState.PROCESSING] * 2
    assert await queue.finish(claim, b"proof", 1)
    await queue.end()


def test_queues__of_a_network__have_the_names_of_the_reference() -> None:
    names = [
        (queue.queue_name, queue.processing_name, queue.label)
        for kind in ("update", "append", "address-append")
        for queue in (CircuitQueue.of(kind, Network.MAINNET), CircuitQueue.of(kind, Network.DEVNET))
    ]
    assert names == [
        ("zk_update_mainnet_queue", "zk_update_mainnet_processing_queue", "update"),
        ("zk_update_devnet_queue", "zk_update_devnet_processing_queue", "update"),
        ("zk_append_mainnet_queue", "zk_append_mainnet_processing_queue", "append"),
        ("zk_append_devnet_queue", "zk_append_devnet_processing_queue", "append"),
        ("zk_address_append_mainnet_queue", "zk_address_append_mainnet_processing_queue", "address-append"),
        ("zk_address_append_devnet_queue", "zk_address_append_devnet_processing_queue", "address-append"),
    ]


@pytest.mark.parametrize(
    ("kind", "queue", "names"),
    [
        ("update", CircuitQueue.UPDATE, ("zk_update_queue", "zk_update_processing_queue", "update")),
        ("append", CircuitQueue.APPEND, ("zk_append_queue", "zk_append_processing_queue", "append")),
        (
            "address-append",
            CircuitQueue.ADDRESS_APPEND,
            ("zk_address_append_queue", "zk_address_append_processing_queue", "address-append"),
        ),
        ("inclusion", CircuitQueue.UPDATE, ("zk_update_queue", "zk_update_processing_queue", "update")),
        (None, CircuitQueue.UPDATE, ("zk_update_queue", "zk_update_processing_queue", "update")),
        ("foo", CircuitQueue.UPDATE, ("zk_update_queue", "zk_update_processing_queue", "update")),
    ],
)
def test_queue__of_a_circuit_type__has_the_names_of_the_reference(
    kind: str | None, queue: CircuitQueue, names: tuple[str, str, str]
) -> None:
    assert CircuitQueue.of(kind) is queue
    assert (queue.queue_name, queue.processing_name, queue.label) == names
