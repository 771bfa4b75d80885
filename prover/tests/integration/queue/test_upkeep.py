"""Time-outs, sweeps, wake-ups and counts of the job store."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest
from queue_inspection import KEYS, Queue
from redis_server import RedisServer, StartRedis

from prover.queue.circuit_queues import CircuitQueue
from prover.queue.jobs import EventKind, JobState, LeaseState, Submission, SweepKind
from prover.settings import QueueSettings

REQUEST = Submission("update", "batch_update_32_10", b'{"a": 1}', "tree", 4)
WORKER = "worker"


@pytest.fixture
async def queue(redis_database: RedisServer) -> AsyncIterator[Queue]:
    queue = Queue(redis_database, QueueSettings(depth_limit=5, memory_limit_bytes=2000, lease_s=600))
    yield queue
    await queue.end()


@pytest.mark.parametrize("by", ["claim", "sweep"])
async def test_job__that_waited_too_long__fails_unproved(queue: Queue, by: str) -> None:
    submitted = await queue.submit(REQUEST)
    queue.look.age(submitted.job_id, 3600.5)
    if by == "claim":
        assert await queue.claim(CircuitQueue.UPDATE, WORKER, None) is None
    else:
        assert await queue.sweep(SweepKind.STUCK) == 1
    state, error = await queue.state(submitted.job_id)
    assert state is JobState.FAILED
    assert error is not None
    assert error.startswith("job expired after 1h0m0.")
    assert error.endswith("s (max: 1h0m0s)")
    assert not (await queue.submit(REQUEST)).duplicate


async def test_job__that_may_wait_for_longer_than_requests_are_kept__is_not_ended(redis_database: RedisServer) -> None:
    queue = Queue(redis_database, QueueSettings(wait_limit_s=7200))
    try:
        submitted = await queue.submit(REQUEST)
        queue.look.age(submitted.job_id, 3601)
        for kind in SweepKind:
            assert await queue.sweep(kind) == 0
        assert (await queue.state(submitted.job_id))[0] is JobState.QUEUED
        queue.look.age(submitted.job_id, 7201)
        assert await queue.sweep(SweepKind.OLD_REQUESTS) == 1
    finally:
        await queue.end()


async def test_job__that_was_begun_in_time__does_not_expire(queue: Queue) -> None:
    submitted = await queue.submit(REQUEST)
    queue.look.age(submitted.job_id, 3599)
    claim = await queue.claimed()
    assert claim.waited_s == pytest.approx(3599, abs=60)
    queue.client.hincrby(KEYS.job(submitted.job_id), "queued", -(10**7))
    for kind in SweepKind:
        assert await queue.sweep(kind) == 0
    # Handed back, it has the whole time again.
    assert await queue.requeue(claim, count_attempt=False, reason="shutting down")
    assert (await queue.claimed()).job_id == submitted.job_id


async def test_sweeps__remove_what_is_final_for_long_enough_and_nothing_else(queue: Queue) -> None:
    for number in range(4):
        await queue.submit(Submission("update", "", f"{number}".encode()))
    ended = [await queue.claimed() for _ in range(4)]
    for claim in ended[:2]:
        await queue.finish(claim, b"proof", 1)
    for claim in ended[2:]:
        await queue.fail(claim, "error", deterministic=True)
    for claim in (ended[0], ended[2]):
        queue.look.age_final(claim.job_id, 3601)
    assert [await queue.sweep(kind) for kind in (SweepKind.RESULTS, SweepKind.FAILED)] == [1, 1]
    found = [await queue.status(claim.job_id) for claim in ended]
    assert [status is None for status in found] == [True, False, True, False]
    assert not (await queue.submit(Submission("update", "", b"0"))).duplicate
    assert (await queue.submit(Submission("update", "", b"1"))).duplicate


async def test_final_jobs__live_for_as_long_as_results_are_kept(redis_database: RedisServer) -> None:
    queue = Queue(redis_database, QueueSettings(result_age_s=1000, failure_age_s=500))
    try:
        for number in range(2):
            await queue.submit(Submission("update", "", f"{number}".encode()))
        done, failed = await queue.claimed(), await queue.claimed()
        await queue.finish(done, b"proof", 1)
        await queue.fail(failed, "error", deterministic=True)
        for claim, seconds in ((done, 1000), (failed, 500)):
            digest = queue.look.job(claim.job_id)["digest"]
            for key in (KEYS.job(claim.job_id), queue.look.key(f"digest:{digest}")):
                assert queue.client.ttl(key) == pytest.approx(seconds, abs=120)
    finally:
        await queue.end()


async def test_wake_ups__of_jobs_that_end_without_workers__do_not_pile_up(queue: Queue) -> None:
    for number in range(300):
        submitted = await queue.submit(Submission("append", "", f"{number}".encode()))
        await queue.cancel(submitted.job_id)
    assert (await queue.stats()).queues[CircuitQueue.APPEND].wake_ups <= 65


async def test_wake_ups__that_got_lost__are_replaced_by_the_sweep(queue: Queue) -> None:
    for number in range(5):
        await queue.submit(Submission("append", "", f"{number}".encode()))
    name = KEYS.wake_queue(CircuitQueue.APPEND)
    first, *others = queue.client.zrange(name, 0, -1)
    queue.client.zrem(name, *others[:2])
    queue.client.set(b"arq:in-progress:" + first, 1)
    await queue.sweep(SweepKind.STUCK)
    assert (await queue.stats()).queues[CircuitQueue.APPEND].wake_ups == 6


async def test_wake_up__that_a_worker_with_other_circuits_used__is_replaced(queue: Queue) -> None:
    await queue.submit(REQUEST)
    (used,) = queue.client.zrange(KEYS.wake_queue(CircuitQueue.UPDATE), 0, -1)
    for wake_up in (used.decode(), ""):  # without one, none is missing
        assert await queue.claim(CircuitQueue.UPDATE, WORKER, frozenset({"another"}), wake_up) is None
        assert (await queue.stats()).queues[CircuitQueue.UPDATE].wake_ups == 2
        if wake_up:
            # For a second nobody takes it; then everybody may, whatever the worker's clock: its score is long past.
            (passed_on, score) = queue.client.zrange(KEYS.wake_queue(CircuitQueue.UPDATE), -1, -1, withscores=True)[0]
            assert 0 < queue.client.pttl(b"arq:in-progress:" + passed_on) <= 1000
            assert score < 1_000_000
        queue.client.delete(queue.look.queue_key(CircuitQueue.UPDATE, "passed_on"))
    assert await queue.claim(CircuitQueue.UPDATE, WORKER, frozenset({REQUEST.circuit})) is not None


@pytest.mark.parametrize(
    "place", ["zk_address_append_queue:leases", "zk_address_append_queue:waiting", "failed", "results"]
)
@pytest.mark.parametrize(
    "record", [{"state": "processing"}, {"state": "queued", "queue": "no_queue"}, {"state": "failed"}, "a text"]
)
async def test_record__that_no_instance_writes__is_removed_and_stops_no_sweep(
    queue: Queue, place: str, record: dict[str, str] | str
) -> None:
    """After a slip of an operator, or with an attacker in Redis."""
    await queue.submit(REQUEST)
    claim = await queue.claimed()
    queue.look.end_lease(claim.job_id)
    key = queue.look.key("job:x")
    if isinstance(record, str):
        queue.client.set(key, record)
    else:
        queue.client.hset(key, mapping=record)
    queue.client.zadd(queue.look.key(place), {"x": 1})
    await queue.heartbeat([])
    for kind in SweepKind:
        await queue.sweep(kind)
    assert (await queue.state(claim.job_id))[0] is JobState.QUEUED
    assert not queue.client.exists(key)
    queue.look.check()


@pytest.mark.parametrize("field", ["size", "fence", "attempt", "queued"])
@pytest.mark.parametrize("number", ["1.5", "inf", "-1", "1" * 20, ""])
async def test_record__with_a_number_that_no_instance_writes__is_removed_and_its_body_is_a_new_job(
    queue: Queue, field: str, number: str
) -> None:
    await queue.submit(REQUEST)
    claim = await queue.claimed()
    queue.client.hset(queue.look.key(f"job:{claim.job_id}"), field, number)
    queue.look.end_lease(claim.job_id)
    await queue.heartbeat([])
    for kind in SweepKind:
        await queue.sweep(kind)
    assert EventKind.REMOVED in queue.happened()
    again = await queue.submit(REQUEST)
    assert (again.duplicate, again.job_id == claim.job_id) == (False, False)


async def test_submit__job_of_the_body_is_a_text__is_a_new_job(queue: Queue) -> None:
    first = await queue.submit(REQUEST)
    queue.client.set(queue.look.key(f"job:{first.job_id}"), "a text")
    second = await queue.submit(REQUEST)
    assert not second.duplicate
    claim = await queue.claimed()
    assert claim.job_id == second.job_id
    assert await queue.finish(claim, b"proof", 1)
    await queue.sweep(SweepKind.STUCK)  # corrects the sums


async def test_claim__with_or_without_a_wake_up__removes_one(queue: Queue) -> None:
    for number in range(3):
        await queue.submit(Submission("update", "", f"{number}".encode()))
    name = KEYS.wake_queue(CircuitQueue.UPDATE)
    first, second, third = queue.client.zrange(name, 0, -1)
    queue.client.set(b"arq:in-progress:" + first, 1)
    assert await queue.claim(CircuitQueue.UPDATE, WORKER, None, first.decode())
    assert queue.client.zrange(name, 0, -1) == [second, third]
    assert queue.client.exists(b"arq:job:" + first) == 0
    assert await queue.claim(CircuitQueue.UPDATE, WORKER, None)
    assert queue.client.zrange(name, 0, -1) == [second]
    queue.client.set(b"arq:in-progress:" + second, 1)  # another worker is about to claim with it
    assert await queue.claim(CircuitQueue.UPDATE, WORKER, None)
    assert queue.client.zrange(name, 0, -1) == [second]


async def test_sweep__by_an_instance__is_named_in_the_statistics_for_a_while(queue: Queue) -> None:
    await queue.sweep(SweepKind.STUCK)
    assert (await queue.stats()).sweeper == ""
    for kind in SweepKind:
        await queue.sweep(kind, "a" if kind is SweepKind.STUCK else "b", 60)
    assert (await queue.stats()).sweeper == "a"
    assert 50_000 < queue.client.pttl(queue.look.key("sweeper")) <= 60_000


async def test_stats__count_trees_types_and_ages(queue: Queue) -> None:
    for number, (kind, tree) in enumerate([("update", "a"), ("update", "a"), ("inclusion", ""), ("foo", "b")]):
        await queue.submit(Submission(kind, "", f"{number}".encode(), tree))
    claim = await queue.claimed()
    queue.client.zadd(queue.look.queue_key(CircuitQueue.UPDATE, "running"), {claim.job_id: 1})
    stats = await queue.stats()
    counts = stats.queues[CircuitQueue.UPDATE]
    assert (counts.waiting, counts.waiting_with_tree, counts.waiting_without_tree, counts.trees) == (3, 2, 1, 2)
    assert (counts.processing, counts.stuck, stats.stuck, counts.payload_bytes) == (1, 1, 1, 4)
    assert counts.waiting_by_type == {"update": 1, "inclusion": 1, "unknown": 1}
    assert (stats.total_pending, stats.total_active, stats.failed, stats.results) == (3, 1, 0, 0)
    assert stats.queues[CircuitQueue.APPEND].waiting == 0


async def test_body__that_was_evicted__fails_the_job_with_the_remedy(queue: Queue) -> None:
    submitted = await queue.submit(REQUEST)
    queue.client.delete(queue.look.key(f"body:{submitted.job_id}"))
    assert await queue.claim(CircuitQueue.UPDATE, WORKER, None) is None
    assert await queue.state(submitted.job_id) == (
        JobState.FAILED,
        "the body of this job was lost; submit it again",
    )


async def test_signs_of_life__of_an_idle_instance__are_not_written_to_the_disk(redis_start: StartRedis) -> None:
    server = redis_start(appendonly=True)
    queue = Queue(server, QueueSettings(lease_s=600))

    async def upkeep() -> None:
        assert await queue.heartbeat([]) == []
        assert await queue.sweep(SweepKind.STUCK, "a", 600) == 0

    await upkeep()
    before = server.info("persistence")["aof_current_size"]
    for _ in range(3):
        await upkeep()
    assert server.info("persistence")["aof_current_size"] == before
    await queue.submit(REQUEST)
    assert server.info("persistence")["aof_current_size"] > before
    await queue.end()


async def test_replica__promoted_without_signs_of_life__continues_with_jobs_and_sweeps(
    redis_start: StartRedis,
) -> None:
    first = redis_start("--repl-diskless-sync-delay", "0")
    second = redis_start("--replicaof", "127.0.0.1", str(first.port))
    limits = QueueSettings(lease_s=600)
    queue = Queue(first, limits)
    for number in range(2):
        await queue.submit(Submission("update", "", f"{number}".encode()))
    claim = await queue.claimed()
    assert await queue.heartbeat([claim]) == [LeaseState.KEPT]
    assert await queue.sweep(SweepKind.STUCK, "a", 600) == 0
    deadline = time.monotonic() + 60
    while not (queue.client.ping() and queue.client.wait(1, 1000)):  # waits for what was written before the ping
        assert time.monotonic() < deadline, second.log
    await queue.end()
    first.kill()
    with second.client() as client:
        client.replicaof("NO", "ONE")
    queue = Queue(second, limits)
    assert (await queue.stats()).sweeper == ""
    assert await queue.sweep(SweepKind.STUCK, "b", 600) == 0
    assert await queue.heartbeat([claim]) == [LeaseState.KEPT]
    assert await queue.finish(claim, b"proof", 1)
    assert (await queue.claimed()).attempt == 1
    await queue.end()


async def test_redis__restarted_at_once__spares_no_lease_that_ended_while_others_were_renewed(
    redis_start: StartRedis,
) -> None:
    server = redis_start(appendonly=True)
    queue = Queue(server, QueueSettings(lease_s=600))
    for number in range(2):
        await queue.submit(Submission("update", "", f"{number}".encode()))
    dead, alive = await queue.claimed(), await queue.claimed()
    assert await queue.heartbeat([alive]) == [LeaseState.KEPT]
    now = queue.client.time()[0] * 1000
    queue.client.hset(queue.look.key("signs_of_life"), "spared", 1)
    queue.client.zadd(queue.look.queue_key(CircuitQueue.UPDATE, "leases"), {dead.job_id: now - 1})
    server.restart()
    assert await queue.heartbeat([alive]) == [LeaseState.KEPT]
    assert (await queue.state(dead.job_id))[0] is JobState.QUEUED
    assert await queue.finish(alive, b"proof", 1)
    await queue.end()


async def test_failures__beyond_their_number__push_out_the_oldest(redis_database: RedisServer) -> None:
    queue = Queue(redis_database, QueueSettings(failure_limit=3))
    try:
        submitted = [await queue.submit(Submission("update", "", f"{number}".encode())) for number in range(6)]
        for number, job in enumerate(submitted[:5]):
            await queue.cancel(job.job_id)
            queue.look.age_final(job.job_id, 10 - number)  # no two in the same millisecond
        found = [await queue.status(job.job_id) for job in submitted]
        states = [status.state if status else None for status in found]
        assert states == [None, None, *[JobState.FAILED] * 3, JobState.QUEUED]
        assert (await queue.stats()).failed == 3
    finally:
        await queue.end()
