"""A release without networks on the same Redis as this one, as during a rolling update: no job is lost."""

from __future__ import annotations

import re

import pytest
from queue_inspection import Queue
from redis_server import RedisServer

from prover.queue import records, scripts
from prover.queue.circuit_queues import CircuitQueue, Network
from prover.queue.jobs import JobState, JobStatus, LeaseState, Submission, SweepKind
from prover.settings import QueueSettings

QUEUE = CircuitQueue.APPEND_MAINNET


def request(number: int, network: Network | None = Network.MAINNET) -> Submission:
    return Submission("append", "batch_append_32_10", f"{number}".encode(), "tree", number, network=network)


class EarlierScripts(scripts.Scripts):
    """The scripts as they were: three queues, and the queue of the circuit for each record."""

    async def _load(self, name: str) -> str:
        text = scripts.read_source(name)
        earlier = {
            r"local QUEUES = \{\}\n(.+\n)+?end\n": (
                "local QUEUES = {'zk_update_queue', 'zk_append_queue', 'zk_address_append_queue'}\n"
            ),
            r"job\.queue = job\.queue or job\.lane": "job.queue = job.lane",
            r"'signs_of_life'": "'signs'",
        }
        for now, then in earlier.items():
            text, replaced = re.subn(now, then, text)
            assert replaced == 1, now
        text = re.sub(r"    -- Corrects sums(.+\n)+?    end\n", "", text)
        digest: str = await self.run_command("SCRIPT LOAD", text)
        self._digests[name] = digest
        return digest


class EarlierRelease(Queue):
    """A store of the release before: its scripts, and records without a member that it does not know."""

    def __init__(self, database: RedisServer, limits: QueueSettings) -> None:
        super().__init__(database, limits)
        self._scripts = EarlierScripts(self.connection.redis, self.keys.prefix)

    async def status(self, job_id: str) -> JobStatus | None:
        known = [name for name in records.STATUS_FIELDS if name != "queue"]
        values = dict(zip(known, self.client.hmget(self.keys.job(job_id), known), strict=True))
        return records.status(job_id, [values.get(name) for name in records.STATUS_FIELDS])


async def test_jobs_of_networks__with_an_earlier_release_next_to_this_one__end_as_if_it_were_not_there(
    redis_database: RedisServer,
) -> None:
    limits = QueueSettings(lease_s=600, wait_limit_s=600)
    now, before = Queue(redis_database, limits), EarlierRelease(redis_database, limits)
    jobs = [(await now.submit(request(number))).job_id for number in range(4)]
    shared = (await before.submit(request(0, None))).job_id
    assert shared not in jobs, "equal bytes for another network are another job"
    assert (await now.submit(request(0, None))).job_id == shared

    async def earlier_life() -> None:
        """Let the earlier release do what it does without calls: signs of life, sweeps, counts."""
        assert await before.heartbeat([]) == []
        for kind in SweepKind:
            assert await before.sweep(kind) == 0
        await before.stats()

    await earlier_life()
    assert await before.claim(QUEUE.without_network, "earlier", None) is not None  # shared
    assert await before.claim(QUEUE.without_network, "earlier", None) is None, "it leaves the jobs of networks alone"
    claims = [await now.claimed(QUEUE) for _ in jobs]
    assert [claim.job_id for claim in claims] == jobs
    for job_id in jobs:
        seen = await before.status(job_id)
        assert seen is not None
        assert (seen.state, seen.queue) == (JobState.PROCESSING, CircuitQueue.APPEND), "it can answer clients"
    await earlier_life()
    assert await now.heartbeat(claims) == [LeaseState.KEPT] * 4
    assert await now.finish(claims[0], b"proof", 1)
    assert await now.requeue(claims[1], count_attempt=False, reason="a pause")
    await before.cancel(jobs[2])
    assert await now.heartbeat([claims[2]]) == [LeaseState.CANCELLED]
    assert await now.fail(claims[2], "cancelled", deterministic=False)
    assert await now.fail(claims[3], "a reason", deterministic=True)
    await earlier_life()
    assert [(await before.status(job_id)).state for job_id in jobs] == [  # type: ignore[union-attr]
        *(JobState.COMPLETED, JobState.QUEUED, JobState.FAILED, JobState.FAILED)
    ]
    found = await before.status(jobs[0])
    assert found is not None
    assert found.proof == b"proof"
    assert (await now.claimed(QUEUE)).job_id == jobs[1]
    await before.close()
    await before.connection.close()
    await now.end()


@pytest.mark.parametrize("others", [0, 2])
async def test_waiting_job_of_a_network__cancelled_by_an_earlier_release__ends_and_leaves_right_sums(
    redis_database: RedisServer, others: int
) -> None:
    """It corrects the sums of the queue of the circuit; this release finds that out."""
    limits = QueueSettings(lease_s=600, wait_limit_s=600)
    now, before = Queue(redis_database, limits), EarlierRelease(redis_database, limits)
    job_id = (await now.submit(request(0))).job_id
    kept = [(await now.submit(request(number, None))).job_id for number in range(1, others + 1)]
    await before.cancel(job_id)
    status = await now.status(job_id)
    assert status is not None
    assert (status.state, status.error) == (JobState.FAILED, "cancelled")
    again = (await now.submit(request(0))).job_id
    assert again != job_id, "an equal body is a new job"
    claim = await now.claimed(QUEUE)
    assert claim.job_id == again
    assert await now.finish(claim, b"proof", 1)
    for expected in kept:
        claim = await now.claimed(CircuitQueue.APPEND)
        assert claim.job_id == expected
        assert await now.finish(claim, b"proof", 1)
    await now.sweep(SweepKind.STUCK)
    await before.close()
    await before.connection.close()
    await now.end()  # checks all sums
