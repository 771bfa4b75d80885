"""Worker processes that die, freeze and are asked to stop; instances with parts of the service; Redis that goes away.

Proofs are real, by the smallest published key. Blanks after a body make it another job.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import closing, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from golden_vectors import vector_named
from queue_fleet import Member, moment, running_fleet
from redis_server import RedisServer, StartRedis

from prover.queue.connection import RedisConnection
from prover.queue.jobs import JobState, JobStatus, QueueStats, Submission
from prover.queue.store import JobStore

VECTOR = vector_named("prover/v2_inclusion_32_1")
TAKEN_BACK_WITHIN_S = 15
SLOW_MACHINE_S = 15
"""What a loaded machine may add to a time."""


class Queue:
    """The queue as a test reads it: each call has a separate connection."""

    def __init__(self, server: RedisServer) -> None:
        self._url = server.url

    def submit(self, *numbers: int) -> list[str]:
        async def work(store: JobStore) -> list[str]:
            bodies = [VECTOR.body + b" " * number for number in numbers]
            return [(await store.submit(Submission("inclusion", VECTOR.circuit, body))).job_id for body in bodies]

        ids: list[str] = self._with_store(work)
        return ids

    def status(self, job_id: str) -> JobStatus:
        status: JobStatus | None = self._with_store(lambda store: store.status(job_id))
        assert status is not None
        return status

    def stats(self) -> QueueStats:
        stats: QueueStats = self._with_store(lambda store: store.stats())
        return stats

    def _with_store(self, work: Callable[[JobStore], Any]) -> Any:
        async def once() -> Any:
            connection = RedisConnection.open(self._url)
            store = JobStore(connection)
            try:
                return await work(store)
            finally:
                await store.close()
                await connection.close()

        return asyncio.run(once())


def until(holds: Callable[[], bool], *members: Member, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "\n".join(member.tail() for member in members)
        time.sleep(0.05)


def all_completed(queue: Queue, jobs: list[str]) -> bool:
    return queue.stats().results == len(jobs)


def freeze_at_work(queue: Queue, worker: Member) -> str:
    """Stop a process while it has a job; gives the job's id."""
    deadline = time.monotonic() + 60
    while True:
        os.kill(worker.pid, signal.SIGSTOP)
        if queue.stats().total_active:
            (job_id,) = worker.jobs_begun() or {""}
            if job_id and queue.status(job_id).state is JobState.PROCESSING:
                return job_id
        os.kill(worker.pid, signal.SIGCONT)
        assert time.monotonic() < deadline, worker.tail()
        time.sleep(0.05)


def events(member: Member, name: str) -> list[dict[str, Any]]:
    return [event for event in member.events() if event["event"] == name]


def kill_if_running(member: Member) -> None:
    with suppress(AssertionError):
        member.end(signal.SIGKILL)


def get(port: int, path: str) -> tuple[int, bytes]:
    with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()


def post(port: int, path: str, body: bytes, **headers: str) -> tuple[int, Any]:
    with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())


def test_worker__killed__has_its_job_proved_by_another_within_seconds(
    redis_database: RedisServer, reference_keys_dir: Path, tmp_path: Path
) -> None:
    queue = Queue(redis_database)
    with running_fleet(tmp_path, reference_keys_dir, redis_database.url, {}, apis=0, workers=1) as (_, [victim]):
        jobs = queue.submit(*range(16))
        orphan = freeze_at_work(queue, victim)
        last_sign = time.time()
        victim.kill()
        heirs = tmp_path / "heirs"
        heirs.mkdir()
        with running_fleet(heirs, reference_keys_dir, redis_database.url, {}, apis=0, workers=1) as (_, [heir]):
            until(lambda: all_completed(queue, jobs), heir)
            begun = next(event for event in events(heir, "job_started") if event["job_id"] == orphan)
            assert begun["attempt"] == 2
            assert moment(begun) - last_sign < TAKEN_BACK_WITHIN_S + SLOW_MACHINE_S
            assert queue.status(orphan).attempt == 2


def test_worker__frozen_beyond_its_lease__cannot_answer_for_the_job_any_more(
    redis_database: RedisServer, reference_keys_dir: Path, tmp_path: Path
) -> None:
    queue = Queue(redis_database)
    with running_fleet(tmp_path, reference_keys_dir, redis_database.url, {}, apis=0, workers=2) as (_, [first, second]):
        jobs = queue.submit(*range(16))
        lost = freeze_at_work(queue, first)
        until(lambda: all_completed(queue, jobs), second)
        answer = queue.status(lost)
        os.kill(first.pid, signal.SIGCONT)
        until(lambda: lost not in first.jobs_begun(), first)
        assert queue.status(lost) == answer
        assert answer.attempt == 2
        assert not [event for event in events(first, "job_finished") if event["job_id"] == lost]
        (again,) = queue.submit(100)
        until(lambda: queue.status(again).state is JobState.COMPLETED, first, second)


def test_worker__asked_to_stop__finishes_what_it_began_and_leaves_the_rest(
    redis_database: RedisServer, reference_keys_dir: Path, tmp_path: Path
) -> None:
    queue = Queue(redis_database)
    with running_fleet(tmp_path, reference_keys_dir, redis_database.url, {}, apis=0, workers=2) as (_, [first, second]):
        second.end()
        jobs = queue.submit(*range(16))
        until(lambda: len(events(first, "job_finished")) >= 2, first)
        assert first.end(signal.SIGTERM) == 0
        assert len(events(first, "job_started")) == len(events(first, "job_finished"))
        stats = queue.stats()
        assert stats.total_active == 0
        assert stats.total_pending + stats.results == len(jobs)
        assert stats.total_pending > 0
        second.start()
        until(lambda: all_completed(queue, jobs), second)
        assert {queue.status(job_id).attempt for job_id in jobs} == {1}


def test_worker__without_an_api__serves_metrics_and_probes_alone(
    redis_database: RedisServer, reference_keys_dir: Path, tmp_path: Path
) -> None:
    queue = Queue(redis_database)
    with running_fleet(tmp_path, reference_keys_dir, redis_database.url, {}, apis=0, workers=1) as (_, [worker]):
        (listening,) = events(worker, "listening")
        assert listening["api"] is None
        (job_id,) = queue.submit(1)
        until(lambda: queue.status(job_id).state is JobState.COMPLETED, worker)
        until(
            lambda: b'prover_jobs_processed_total{status="completed"} 1.0' in get(worker.metrics_port, "/metrics")[1],
            worker,
        )
        assert get(worker.metrics_port, "/livez") == (200, b"alive\n")
        assert get(worker.metrics_port, "/startupz")[0] == 200
        assert b"prover_redis_up 1.0" in get(worker.metrics_port, "/metrics")[1]


def test_api__without_workers__leaves_jobs_to_others_and_proves_what_somebody_waits_for(
    redis_database: RedisServer, reference_keys_dir: Path, tmp_path: Path
) -> None:
    words = ["--keys-dir", str(reference_keys_dir), "--redis-url", redis_database.url]
    api = Member("api", tmp_path, [*words, "--no-workers"], {})
    alone = Member("alone", tmp_path, [*words, "--server-only"], {})
    worker = Member("worker", tmp_path, [*words, "--queue-only", "--circuit", "inclusion"], {})
    members = (api, alone, worker)
    try:
        for member in (api, alone):
            member.start()
        for member in (api, alone):
            member.become_ready()
        assert post(api.api_port, "/prove", VECTOR.body)[0] == 200
        status, job = post(api.api_port, "/prove", VECTOR.body, **{"X-Async": "true"})
        assert (status, job["status"]) == (202, "queued")
        place = f"/prove/status?job_id={job['job_id']}"
        assert json.loads(get(api.api_port, place)[1])["status"] == "queued"
        assert get(alone.api_port, place)[0] == 404
        assert post(alone.api_port, "/prove", VECTOR.body, **{"X-Async": "true"})[0] == 200
        worker.start()
        until(lambda: get(api.api_port, place)[0] == 200, api, worker)
        assert json.loads(get(api.api_port, place)[1])["status"] == "completed"
        assert events(worker, "workers_started")[0]["queues"] == [
            f"zk_update_{network}queue" for network in ("", "mainnet_", "devnet_")
        ]
        assert not events(api, "job_started")
        for member in members:
            assert member.end(signal.SIGINT) == 0, member.tail()
    finally:
        for member in members:
            kill_if_running(member)


def test_api_with_workers__asked_to_stop__finishes_what_it_began(
    redis_database: RedisServer, reference_keys_dir: Path, tmp_path: Path
) -> None:
    queue = Queue(redis_database)
    both = Member("both", tmp_path, ["--keys-dir", str(reference_keys_dir), "--redis-url", redis_database.url], {})
    try:
        both.start()
        both.become_ready()
        jobs = queue.submit(*range(16))
        until(lambda: len(events(both, "job_finished")) >= 1, both)
        assert post(both.api_port, "/prove", VECTOR.body)[0] == 200
        assert both.end() == 0
        assert len(events(both, "job_started")) == len(events(both, "job_finished"))
        stats = queue.stats()
        assert (stats.total_active, stats.total_pending + stats.results) == (0, len(jobs))
    finally:
        kill_if_running(both)


def test_worker__that_gets_the_signal_to_reload_keys__continues_and_drains_when_asked(
    redis_database: RedisServer, reference_keys_dir: Path, tmp_path: Path
) -> None:
    queue = Queue(redis_database)
    words = ["--keys-dir", str(reference_keys_dir), "--queue-only", "--redis-url", redis_database.url]
    worker = Member("worker", tmp_path, words, {})
    try:
        worker.start()
        until(lambda: bool(events(worker, "starting")), worker)
        os.kill(worker.pid, signal.SIGHUP)
        worker.become_ready()
        os.kill(worker.pid, signal.SIGHUP)
        jobs = queue.submit(*range(2))
        until(lambda: all_completed(queue, jobs), worker)
        assert worker.end() == 0
    finally:
        kill_if_running(worker)


def test_redis__absent_then_there_then_killed__loses_nothing(
    redis_start: StartRedis, reference_keys_dir: Path, tmp_path: Path
) -> None:
    server = redis_start(appendonly=True)
    queue = Queue(server)
    server.kill()
    words = ["--keys-dir", str(reference_keys_dir), "--queue-only"]
    worker = Member("worker", tmp_path, words, {"REDIS_URL": server.url})
    try:
        worker.start()
        until(lambda: bool(events(worker, "redis_unreachable")), worker)
        assert not worker.is_ready()
        assert b"the job queue does not answer" in get(worker.metrics_port, "/readyz")[1]
        server.start()
        worker.become_ready()
        jobs = queue.submit(*range(10))
        until(lambda: len(events(worker, "job_finished")) >= 3, worker)
        server.restart()
        until(lambda: all_completed(queue, jobs), worker)
        assert queue.stats().results == len(jobs)
        assert worker.end() == 0
    finally:
        kill_if_running(worker)


def test_redis_address__in_logs_and_errors__has_no_password(
    redis_start: StartRedis, reference_keys_dir: Path, tmp_path: Path
) -> None:
    server = redis_start(password="hunter2-hunter2")
    with running_fleet(tmp_path, reference_keys_dir, server.url, {}, workers=1) as ([api], [worker]):
        server.kill()
        until(lambda: len(events(worker, "redis_unreachable")) >= 1, worker)
        until(lambda: len(events(api, "redis_unreachable")) >= 1, api)
        for member in (api, worker):
            assert "hunter2" not in member.log.read_text()
            assert events(member, "queue")[0]["redis"] == f"redis://***@127.0.0.1:{server.port}/0"
