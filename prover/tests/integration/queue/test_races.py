"""Workers on several connections to one Redis."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict

from queue_inspection import Queue
from redis_server import RedisServer

from prover.queue.circuit_queues import CircuitQueue
from prover.queue.jobs import Submission
from prover.settings import QueueSettings


async def test_jobs__of_racing_workers_that_fail_and_vanish__each_end_once(redis_database: RedisServer) -> None:
    chance = random.Random(20)
    queues = [Queue(redis_database, QueueSettings(lease_s=600, attempts=100)) for _ in range(6)]
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
