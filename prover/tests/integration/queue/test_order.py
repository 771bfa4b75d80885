"""Order of claims: round robin over trees, ascending batch index inside a tree, jobs without a tree as one more."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from itertools import count

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from queue_inspection import Queue
from redis_server import RedisServer

from prover.queue.circuit_queues import CircuitQueue
from prover.queue.jobs import Claim, Submission
from prover.queue.limits import QueueLimits

PLENTY = QueueLimits(lease_s=600)
Work = tuple[str, int]


def expected_order(work: list[Work]) -> list[Work]:
    """Return the jobs in order: trees take turns by their first submission; -1 follows all indices of its tree."""
    trees: dict[str, list[Work]] = {}
    for job in work:
        trees.setdefault(job[0], []).append(job)
    for jobs in trees.values():
        jobs.sort(key=lambda job: job[1] if job[1] >= 0 else float("inf"))
    order = []
    while trees:
        for tree in list(trees):
            order.append(trees[tree].pop(0))
            if not trees[tree]:
                del trees[tree]
    return order


async def drained(queue: Queue) -> list[Claim]:
    claims = []
    while claim := await queue.claim(CircuitQueue.UPDATE, "worker", None):
        claims.append(claim)
    return claims


def works() -> st.SearchStrategy[list[Work]]:
    trees = st.sampled_from(["", "a", "b", "ü|}~", "-"])
    return st.lists(st.tuples(trees, st.sampled_from([-1, 0, 1, 2, 9, 10, 2**53, 2**53 + 1])), max_size=25)


def test_claims__of_any_submissions__come_in_the_order_of_the_model(redis_database: RedisServer) -> None:
    numbers = count()

    async def order_of(work: list[Work]) -> list[Work]:
        queue = Queue(redis_database, PLENTY)
        try:
            for tree, index in work:
                await queue.submit(Submission("update", "", f"{next(numbers)}".encode(), tree, index))
            return [(claim.tree_id, claim.batch_index) for claim in await drained(queue)]
        finally:
            await queue.end()

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(works())
    def check(work: list[Work]) -> None:
        redis_database.flush()
        assert asyncio.run(order_of(work)) == expected_order(work)

    check()


async def test_claims__while_a_busy_tree_keeps_submitting__starve_nobody(redis_database: RedisServer) -> None:
    queue = Queue(redis_database, PLENTY)
    numbers = count()

    async def submit(tree: str, index: int) -> None:
        await queue.submit(Submission("update", "", f"{next(numbers)}".encode(), tree, index))

    for index in range(50):
        await submit("busy", index)
    for tree in ("", "quiet", "other"):
        await submit(tree, 0)
    served = []
    for index in range(50, 60):
        await submit("busy", index)
        served.append((await queue.claimed()).tree_id)
    assert served[:4] == ["busy", "", "quiet", "other"]
    assert set(served[4:]) == {"busy"}
    await queue.end()


async def test_jobs__of_racing_workers_that_fail_and_vanish__each_end_once(redis_database: RedisServer) -> None:
    chance = random.Random(20)
    queues = [Queue(redis_database, QueueLimits(lease_s=600, attempts=100)) for _ in range(6)]
    jobs = [
        (await queues[0].submit(Submission("update", "", f"{number}".encode(), f"{number % 7}", number))).job_id
        for number in range(150)
    ]
    finished: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    held: dict[str, list[int]] = defaultdict(list)

    async def work(queue: Queue) -> None:
        while len(finished) + len(failed) < len(jobs):
            claim = await queue.claim(CircuitQueue.UPDATE, "worker", None)
            if claim is None:
                await asyncio.sleep(0.01)
                continue
            held[claim.job_id].append(claim.fence)
            fate = chance.random()
            if fate < 0.2:  # the worker vanishes, and comes back late
                await asyncio.to_thread(queue.look.end_lease, claim.job_id)
                await queue.heartbeat([])
                assert not await queue.finish(claim, b"late", 1)
            elif fate < 0.4:
                assert await queue.requeue(claim, count_attempt=False, reason="pause")
            elif fate < 0.5:
                failed[claim.job_id] += await queue.fail(claim, "error", deterministic=False)
            else:
                finished[claim.job_id] += await queue.finish(claim, str(claim.fence).encode(), 1)

    await asyncio.gather(*map(work, queues))
    assert sorted(finished.keys() | failed.keys()) == sorted(jobs)
    assert set((finished + failed).values()) == {1}
    for job_id in jobs:
        assert held[job_id] == sorted(set(held[job_id]))
        status = await queues[0].status(job_id)
        assert status is not None
        assert status.proof == (str(held[job_id][-1]).encode() if job_id in finished else None)
    for queue in queues:
        await queue.end()
