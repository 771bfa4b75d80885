"""The queue in Redis, read key by key, and the rules that it obeys at every moment."""

from __future__ import annotations

from collections import Counter
from typing import Any, Protocol

import redis

from prover.queue.circuit_queues import CircuitQueue
from prover.queue.connection import RedisConnection
from prover.queue.jobs import Claim, EventKind, JobEvent, JobState
from prover.queue.redis_names import RedisNames
from prover.queue.store import JobStore
from prover.settings import QueueSettings

KEYS = RedisNames()


def words(values: Any) -> list[str]:
    return [value.decode() for value in values]


def texts(values: Any) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in values.items()}


class Database(Protocol):
    """A real Redis, or its twin in this process."""

    def connection(self, timeout_s: float = 5) -> RedisConnection:
        """Return a new connection as the prover has it."""

    def blocking(self) -> redis.Redis:
        """Return a new blocking client."""

    def flush(self) -> None:
        """Remove all data."""


def queue_of(job: dict[str, str]) -> CircuitQueue:
    return CircuitQueue(job.get("queue", job["lane"]))


class Inspection:
    """Reads a database that nobody writes to meanwhile."""

    def __init__(self, client: redis.Redis) -> None:
        self.client: Any = client

    def key(self, name: str) -> str:
        return KEYS.prefix + name

    def queue_key(self, queue: CircuitQueue, name: str) -> str:
        return f"{KEYS.prefix}{queue.value}:{name}"

    def job(self, job_id: str) -> dict[str, str]:
        return texts(self.client.hgetall(KEYS.job(job_id)))

    def job_ids(self) -> list[str]:
        return self.names_under("job:")

    def names_under(self, prefix: str) -> list[str]:
        keys = self.client.scan_iter(self.key(prefix) + "*", count=10_000)
        return sorted(key.decode().removeprefix(self.key(prefix)) for key in keys)

    def lines(self, queue: CircuitQueue) -> list[tuple[str, str, str, str]]:
        """Return (group, circuit, rank, job id) of the waiting jobs."""
        found = []
        for member in words(self.client.zrange(self.queue_key(queue, "pending"), 0, -1)):
            group, circuit, order, number, job_id = member.split("|")
            found.append((group, circuit, f"{order}|{number}", job_id))
        return found

    def check(self) -> None:
        """Fail unless every job is in exactly the places of its state, and every sum is right."""
        ids, digests, bodies = self.job_ids(), self.names_under("digest:"), set(self.names_under("body:"))
        with self.client.pipeline(transaction=False) as pipe:
            for job_id in ids:
                pipe.hgetall(KEYS.job(job_id))
                pipe.pttl(KEYS.job(job_id))
            for digest in digests:
                pipe.get(self.key(f"digest:{digest}"))
            for index in ("results", "failed"):
                pipe.zrange(self.key(index), 0, -1)
            *values, results, failed = pipe.execute()
        jobs = {job_id: texts(found) for job_id, found in zip(ids, values[: 2 * len(ids) : 2], strict=True)}
        lifetimes = dict(zip(ids, values[1 : 2 * len(ids) : 2], strict=True))
        holders = dict(zip(digests, words(values[2 * len(ids) :]), strict=True))
        assert bodies <= jobs.keys()
        for queue in CircuitQueue:
            self._check_queue(queue, {job_id: job for job_id, job in jobs.items() if queue_of(job) is queue})
        for job_id, job in jobs.items():
            live = job["state"] in ("queued", "processing")
            assert (job_id in bodies) == live, job
            assert (job_id in words(results)) == (job["state"] == "completed"), job
            assert (job_id in words(failed)) == (job["state"] == "failed"), job
            assert (lifetimes[job_id] == -1) == live, job
            if live and "cancel" not in job:
                assert holders[job["digest"]] == job_id, job
        for digest, holder in holders.items():
            assert jobs[holder]["digest"] == digest

    def _check_queue(self, queue: CircuitQueue, jobs: dict[str, dict[str, str]]) -> None:
        queued = {job_id for job_id, job in jobs.items() if job["state"] == "queued"}
        running = {job_id for job_id, job in jobs.items() if job["state"] == "processing"}
        with self.client.pipeline(transaction=False) as pipe:
            for name in ("waiting", "leases", "running", "rings"):
                pipe.zrange(self.queue_key(queue, name), 0, -1)
            for name in ("turns", "types"):
                pipe.hgetall(self.queue_key(queue, name))
            pipe.get(self.queue_key(queue, "bytes"))
            pipe.zrange(KEYS.wake_queue(queue), 0, -1)
            waiting, leases, begun, rings, turns, types, size, wake_ups = pipe.execute()
        lines = self.lines(queue)
        assert sorted(line[3] for line in lines) == sorted(queued)
        assert set(words(waiting)) == queued
        assert set(words(leases)) == set(words(begun)) == running
        for group, circuit, rank, job_id in lines:
            assert (jobs[job_id]["group"], jobs[job_id]["circuit"], jobs[job_id]["rank"]) == (group, circuit, rank)
        turn_of = texts(turns)
        assert turn_of.keys() == {line[0] for line in lines}
        assert len(set(turn_of.values())) == len(turn_of)
        assert set(words(rings)) == {f"{circuit}|{turn_of[group]}|{group}" for group, circuit, _, _ in lines}
        assert {name: int(count) for name, count in texts(types).items()} == Counter(
            jobs[job_id]["label"] for job_id in queued
        )
        assert int(size or 0) == sum(int(jobs[job_id]["size"]) for job_id in queued | running)
        assert len(wake_ups) >= len(queued)
        arq_jobs = [f"arq:job:{wake_up}" for wake_up in words(wake_ups)]
        assert not arq_jobs or self.client.exists(*arq_jobs) == len(arq_jobs)

    # What time does, without waiting for it.

    def end_lease(self, job_id: str) -> None:
        leases = self.queue_key(queue_of(self.job(job_id)), "leases")
        assert self.client.zadd(leases, {job_id: 1}, xx=True, ch=True) == 1

    def age(self, job_id: str, seconds: float) -> None:
        """Let a job have been waiting for longer."""
        job = self.job(job_id)
        queued = int(job["queued"]) - round(seconds * 1000)
        self.client.hset(KEYS.job(job_id), "queued", queued)
        waiting = self.queue_key(queue_of(job), "waiting")
        assert self.client.zadd(waiting, {job_id: queued}, xx=True, ch=True) == 1

    def age_final(self, job_id: str, seconds: float) -> None:
        """Let a job have been final for longer; its hash is kept, as if it had no time to live."""
        for index in ("results", "failed"):
            ended = self.client.zscore(self.key(index), job_id)
            if ended is not None:
                self.client.zadd(self.key(index), {job_id: ended - seconds * 1000})


class Queue(JobStore):
    """A store with its events, and access to its data in Redis."""

    def __init__(self, database: Database, limits: QueueSettings) -> None:
        self.events: list[JobEvent] = []
        self.connection = database.connection(timeout_s=60)
        self.client: Any = database.blocking()
        self.look = Inspection(self.client)
        super().__init__(self.connection, limits, self.events.append)

    async def end(self) -> None:
        self.look.check()
        await self.close()
        await self.connection.close()
        self.client.close()

    def happened(self) -> list[EventKind]:
        return [event.kind for event in self.events]

    async def claimed(self, queue: CircuitQueue = CircuitQueue.UPDATE) -> Claim:
        claim = await self.claim(queue, "worker", None)
        assert claim is not None
        return claim

    async def state(self, job_id: str) -> tuple[JobState, str | None]:
        status = await self.status(job_id)
        assert status is not None
        return status.state, status.error
