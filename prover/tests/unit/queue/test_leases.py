"""Leases: jobs of dead workers, jobs handed back, late reports, and roles of one process."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace
from queue_inspection import Queue
from redis_twin import RedisTwin

from prover.queue.circuit_queues import CircuitQueue
from prover.queue.jobs import EventKind, JobState, LeaseState, Submission, SweepKind
from prover.settings import QueueSettings

REQUEST = Submission("update", "batch_update_32_10", b'{"a": 1}', "tree", 4)
WORKER = "worker"


@pytest.fixture
async def queue(twin: RedisTwin) -> AsyncIterator[Queue]:
    queue = Queue(twin, QueueSettings(depth_limit=5, memory_limit_bytes=2000, lease_s=600))
    yield queue
    await queue.end()


async def test_lease__that_ends__gives_the_job_to_another_and_refuses_the_first(queue: Queue) -> None:
    await queue.submit(REQUEST)
    first = await queue.claimed()
    assert await queue.heartbeat([first]) == [LeaseState.KEPT]
    queue.look.end_lease(first.job_id)
    assert await queue.heartbeat([]) == []
    assert (await queue.state(first.job_id))[0] is JobState.QUEUED
    assert not await queue.requeue(first, count_attempt=False, reason="late")
    second = await queue.claimed()
    assert (second.job_id, second.attempt) == (first.job_id, 2)
    assert second.fence > first.fence
    assert await queue.heartbeat([first, second]) == [LeaseState.LOST, LeaseState.KEPT]
    assert not await queue.finish(first, b"late", 1)
    assert not await queue.fail(first, "late", deterministic=True)
    assert not await queue.requeue(first, count_attempt=True, reason="late")
    assert await queue.finish(second, b"proof", 1)
    assert EventKind.LEASE_LOST in queue.happened()


async def test_lease__renewed_just_before_its_end_is_noticed__is_kept(queue: Queue) -> None:
    await queue.submit(REQUEST)
    claim = await queue.claimed()
    queue.look.end_lease(claim.job_id)
    assert await queue.heartbeat([claim]) == [LeaseState.KEPT]
    assert await queue.finish(claim, b"proof", 1)


async def test_lease__that_ended_while_others_were_heard__is_not_spared(queue: Queue) -> None:
    await queue.submit(REQUEST)
    claim = await queue.claimed()
    await queue.heartbeat([])
    now = queue.client.time()[0] * 1000
    queue.client.hset(queue.look.key("signs_of_life"), "spared", 1)
    queue.client.zadd(queue.look.queue_key(CircuitQueue.UPDATE, "leases"), {claim.job_id: now - 1})
    await queue.heartbeat([])
    assert (await queue.state(claim.job_id))[0] is JobState.QUEUED


async def test_leases__after_nobody_was_heard_for_long__begin_again_once(queue: Queue) -> None:
    await queue.submit(REQUEST)
    claim = await queue.claimed()
    await queue.heartbeat([claim])
    # As after a long outage: the last sign of life is old, and so is the lease.
    now = queue.client.time()[0] * 1000
    signs = queue.look.key("signs_of_life")
    queue.client.hset(signs, mapping={"heard": now - 3_600_000, "spared": 1})
    queue.client.zadd(queue.look.queue_key(CircuitQueue.UPDATE, "leases"), {claim.job_id: now - 1_800_000})
    assert await queue.sweep(SweepKind.STUCK) == 0
    assert await queue.heartbeat([claim]) == [LeaseState.KEPT]
    # A lease that nobody renewed since is not spared again.
    spared = int(queue.client.hget(signs, "spared") or 0)
    queue.client.hset(signs, mapping={"heard": now - 3_600_000, "spared": spared + 700_000})
    queue.look.end_lease(claim.job_id)
    assert await queue.sweep(SweepKind.STUCK) == 1


async def test_lease__of_a_clock_that_was_set_back__ends_after_its_usual_length(queue: Queue) -> None:
    await queue.submit(REQUEST)
    claim = await queue.claimed()
    now = queue.client.time()[0] * 1000
    leases = queue.look.queue_key(CircuitQueue.UPDATE, "leases")
    queue.client.zadd(leases, {claim.job_id: now + 3_600_000})
    await queue.heartbeat([])
    assert (queue.client.zscore(leases, claim.job_id) or 0) <= now + 600_000 + 2000
    assert (await queue.state(claim.job_id))[0] is JobState.PROCESSING


async def test_lease__of_a_worker_with_a_longer_setting__is_left_by_other_instances(queue: Queue) -> None:
    await queue.submit(REQUEST)
    claim = await queue.claimed()
    leases = queue.look.queue_key(CircuitQueue.UPDATE, "leases")
    longer = queue.client.time()[0] * 1000 + 900_000
    queue.client.hset(queue.look.key(f"job:{claim.job_id}"), "lease", 1_000_000)
    queue.client.zadd(leases, {claim.job_id: longer})
    await queue.heartbeat([])
    assert queue.client.zscore(leases, claim.job_id) == longer


@pytest.mark.parametrize(("length_s", "outage_s"), [(60, 12), (60, 50), (600, 700)])
@pytest.mark.parametrize("first", ["a third", "the other"])
async def test_leases__of_different_lengths_after_an_outage__begin_again_with_their_own(
    twin: RedisTwin, length_s: int, outage_s: int, first: str
) -> None:
    own, third = (Queue(twin, QueueSettings(lease_s=10)) for _ in range(2))
    other = Queue(twin, QueueSettings(lease_s=length_s, heartbeat_s=length_s / 4))
    for tree in ("one", "two"):
        await own.submit(replace(REQUEST, tree_id=tree, body=tree.encode()))
    short, long = await own.claimed(), await other.claimed()
    await own.heartbeat([short])
    await other.heartbeat([long])
    leases, signs = own.look.queue_key(CircuitQueue.UPDATE, "leases"), own.look.key("signs_of_life")
    for job_id, ends in own.client.zrange(leases, 0, -1, withscores=True):
        own.client.zadd(leases, {job_id: ends - outage_s * 1000})
    own.client.hset(signs, mapping={"heard": int(own.client.hget(signs, "heard")) - outage_s * 1000, "spared": 1})
    await {"a third": third, "the other": other}[first].heartbeat([])
    now = own.client.time()[0] * 1000
    left_s = {claim.job_id: (own.client.zscore(leases, claim.job_id) - now) / 1000 for claim in (short, long)}
    assert left_s[short.job_id] == pytest.approx(10, abs=2)
    spared_too = outage_s >= length_s * 0.7
    assert left_s[long.job_id] == pytest.approx(length_s if spared_too else length_s - outage_s, abs=2)
    assert await own.heartbeat([short]) == await other.heartbeat([long]) == [LeaseState.KEPT]


@pytest.mark.parametrize("ends", [3_600_000, float("inf")])
async def test_lease__without_a_job__ends_whatever_its_time(queue: Queue, ends: float) -> None:
    await queue.submit(REQUEST)
    claim = await queue.claimed()
    leases = queue.look.queue_key(CircuitQueue.UPDATE, "leases")
    await queue.remove(claim.job_id, "malformed")
    queue.client.zadd(leases, {claim.job_id: queue.client.time()[0] * 1000 + ends})
    await queue.heartbeat([])
    await queue.sweep(SweepKind.STUCK)
    await queue.sweep(SweepKind.STUCK)
    assert queue.client.zcard(leases) == 0


async def test_requeue__leaves_nothing_of_the_attempt_that_a_worker_of_another_release_would_not_replace(
    queue: Queue,
) -> None:
    submitted = await queue.submit(REQUEST)
    waiting = queue.look.job(submitted.job_id)
    assert await queue.requeue(await queue.claimed(), count_attempt=False, reason="shutting down")
    assert queue.look.job(submitted.job_id).keys() == waiting.keys()


async def test_job__that_loses_its_worker_each_time__is_quarantined(queue: Queue) -> None:
    submitted = await queue.submit(REQUEST)
    for attempt in (1, 2, 3):
        claim = await queue.claimed()
        assert claim.attempt == attempt
        queue.look.end_lease(claim.job_id)
        assert await queue.sweep(SweepKind.STUCK) == 1
    state, error = await queue.state(submitted.job_id)
    assert (state, error) == (JobState.FAILED, "gave up after 3 attempts: its worker stopped responding")
    assert queue.happened()[-1] is EventKind.QUARANTINED


async def test_requeue__counts_attempts_when_requested(queue: Queue) -> None:
    submitted = await queue.submit(REQUEST)
    for _ in range(10):
        assert await queue.requeue(await queue.claimed(), count_attempt=False, reason="shutting down")
    for _ in range(2):
        assert await queue.requeue(await queue.claimed(), count_attempt=True, reason="out of memory")
    last = await queue.claimed()
    assert last.attempt == 3
    assert await queue.requeue(last, count_attempt=True, reason="out of memory")
    assert await queue.state(submitted.job_id) == (JobState.FAILED, "gave up after 3 attempts: out of memory")


async def test_requeue__of_a_job_that_waits_on__keeps_the_time_that_it_has_waited(queue: Queue) -> None:
    submitted = await queue.submit(REQUEST)
    record = queue.look.key(f"job:{submitted.job_id}")
    created = int(queue.client.hget(record, "queued") or 0)
    queue.client.hset(record, "queued", created - 60_000)
    for waits_on, waited_s in ((True, 30), (False, 0)):
        claim = await queue.claimed()
        started = int(queue.client.hget(record, "started") or 0)
        queue.client.hset(record, "started", started - 30_000)  # half of the minute since it was queued
        assert await queue.requeue(claim, count_attempt=False, reason="no place", waits_on=waits_on)
        queued = int(queue.client.hget(record, "queued") or 0)
        assert waited_s - 2 <= queue.client.time()[0] - queued / 1000 <= waited_s + 2


async def test_requeue__of_a_job_to_be_cancelled__ends_it(queue: Queue) -> None:
    submitted = await queue.submit(REQUEST)
    claim = await queue.claimed()
    await queue.cancel(submitted.job_id)
    assert await queue.requeue(claim, count_attempt=False, reason="shutting down")
    assert await queue.state(submitted.job_id) == (JobState.FAILED, "cancelled")


async def test_reports__repeated_after_a_lost_answer__are_still_true(queue: Queue) -> None:
    for number, kind in enumerate(("finish", "fail", "requeue")):
        await queue.submit(Submission("update", "", f"{number}".encode()))
        claim = await queue.claimed()
        for _ in range(2):
            if kind == "finish":
                assert await queue.finish(claim, b"proof", 1)
            elif kind == "fail":
                assert await queue.fail(claim, "error", deterministic=False)
            else:
                assert await queue.requeue(claim, count_attempt=True, reason="pause")
    assert Counter(queue.happened())[EventKind.REQUEUED] == 1


async def test_calls__whose_first_answer_was_lost__change_nothing_twice(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = queue._scripts.call

    async def twice(name: str, arguments: dict[str, Any], blob: bytes = b"") -> Any:
        """Call twice, as redis-py does when a connection breaks before the answer."""
        await once(name, arguments, blob)
        return await once(name, arguments, blob)

    monkeypatch.setattr(queue._scripts, "call", twice)
    for number in range(4):
        assert not (await queue.submit(Submission("update", "", f"{number}".encode()))).duplicate
    done, failed, back = [await queue.claimed() for _ in range(3)]
    assert len({claim.job_id for claim in (done, failed, back)}) == 3
    assert [claim.attempt for claim in (done, failed, back)] == [1, 1, 1]
    assert await queue.heartbeat([done, failed]) == [LeaseState.KEPT, LeaseState.KEPT]
    assert await queue.finish(done, b"proof", 1)
    assert await queue.fail(failed, "error", deterministic=True)
    assert await queue.requeue(back, count_attempt=False, reason="pause")
    stats = await queue.stats()
    assert (stats.total_pending, stats.total_active, stats.results, stats.failed) == (2, 0, 1, 1)
