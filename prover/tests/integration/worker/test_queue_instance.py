"""Jobs of an instance: outcomes, retries, cancelling, draining, sweeps. Redis is real, proofs are not."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
from golden_vectors import vector_named
from queue_instances import PROOF, Gate, Node, StartNode, nodes_on, until
from redis_server import RedisServer, StartRedis

from prover.errors import (
    DevicePaused,
    DeviceUnavailable,
    KeyMissing,
    MemoryBudgetExceeded,
    ProverError,
    QueueUnavailable,
    TryAgainLater,
    WitnessRejected,
)
from prover.kernel.cancellation import CancelFlag
from prover.keys.catalogue.circuits import circuits_named
from prover.keys.catalogue.selection import CircuitSelection
from prover.proving.request import ProofTask
from prover.queue.circuit_queues import CircuitQueue
from prover.queue.jobs import JobState
from prover.worker import attempts, instance

OTHER = vector_named("prover/v2_inclusion_32_2")


@pytest.fixture
async def start(redis_database: RedisServer) -> AsyncIterator[StartNode]:
    async with nodes_on(redis_database.url) as start:
        yield start


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "_LONGEST_PAUSE_S", 0.05)


def failing(*errors: Exception) -> tuple[list[int], object]:
    """Return a proof function that raises these errors one after the other, then succeeds."""
    left, calls = list(errors), [0]

    def prove(task: ProofTask, cancel: CancelFlag) -> None:
        calls[0] += 1
        if left:
            raise left.pop(0)

    return calls, prove


async def test_job__proved__is_completed_once_and_counted(start: StartNode) -> None:
    node = start()
    job = await node.ended(await node.submit())
    assert (job.state, job.proof, job.duration_ms, job.attempt) == (JobState.COMPLETED, PROOF, 1500, 1)
    assert node.service.begun == 1
    await node.shows(1, "jobs_processed", status="completed")
    await node.shows(1, "requests", circuit_type="inclusion", status="ok")
    await node.shows(1, "jobs_submitted", queue="zk_update_queue", outcome="new")


async def test_job__that_breaks_a_constraint__fails_permanently_with_the_synchronous_text(start: StartNode) -> None:
    text = "constraint #7 is not satisfied: roots differ"
    _, prove = failing(WitnessRejected(text))
    node = start(prove)
    job_id = await node.submit()
    job = await node.ended(job_id)
    assert (job.state, job.error, job.attempt) == (JobState.FAILED, text, 1)
    assert await node.submit() == job_id
    assert node.service.begun == 1
    await node.shows(1, "generation_errors", circuit_type="inclusion", error_type="proving_error")
    await node.shows(1, "jobs_processed", status="failed")


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"circuitType":"inclusion"}', "no positive 'addressTreeHeight'"),
        (b'{"circuitType":"nonsense","height":26}', "unknown circuit type: nonsense"),
        (b'{"circuitType":"inclusion","stateTreeHeight":31,"inputCompressedAccounts":[{}]}', "no key file mapping"),
        (b"[" * 100_000, "failed to parse JSON"),
    ],
)
async def test_job__of_a_body_that_cannot_be_proved__fails_without_a_retry(
    start: StartNode, body: bytes, error: str
) -> None:
    node = start()
    job = await node.ended(await node.submit(body=body, circuit=""))
    assert job.state is JobState.FAILED
    assert error in (job.error or "")
    assert job.attempt == 1
    assert node.service.begun == 0


@pytest.mark.parametrize(
    "error",
    [DeviceUnavailable("no random bytes"), KeyMissing("x.key", "download it"), MemoryBudgetExceeded("too large")],
)
async def test_job__that_fails_for_no_fault_of_its_own__is_begun_again(start: StartNode, error: ProverError) -> None:
    calls, prove = failing(error, error)
    node = start(prove)
    job = await node.ended(await node.submit())
    assert (job.state, job.attempt, calls[0]) == (JobState.COMPLETED, 3, 3)
    await node.shows(2, "job_retries", reason="fault")


@pytest.mark.parametrize("error", [MemoryBudgetExceeded("too large"), KeyMissing("x.key", "download it")])
async def test_job__that_this_instance_cannot_prove__leaves_time_for_another(
    start: StartNode, monkeypatch: pytest.MonkeyPatch, error: ProverError
) -> None:
    monkeypatch.setattr(attempts, "_LONGEST_PAUSE_S", 1.0)
    _, prove = failing(error)
    node = start(prove)
    began = time.monotonic()
    await node.ended(await node.submit())
    assert time.monotonic() - began >= 1


async def test_job__that_fails_again_and_again__is_quarantined_with_the_reason(start: StartNode) -> None:
    calls, prove = failing(*[KeyMissing("x.key", "download it")] * 9)
    node = start(prove)
    job_id = await node.submit()
    job = await node.ended(job_id)
    assert (job.state, job.attempt, calls[0]) == (JobState.FAILED, 3, 3)
    assert "proving key file not found: x.key" in (job.error or "")
    await node.shows(1, "quarantined_jobs")
    await node.shows(1, "jobs_processed", status="failed")
    assert await node.submit() != job_id


async def test_job__that_crashes_the_prover__is_quarantined_without_internals(start: StartNode) -> None:
    _, prove = failing(*[RuntimeError("secret internals")] * 9)
    node = start(prove)
    job = await node.ended(await node.submit())
    assert job.state is JobState.FAILED
    assert "Unexpected prover failure" in (job.error or "")
    assert "secret" not in (job.error or "")
    await node.shows(3, "panics", circuit_type="inclusion")


@pytest.mark.parametrize("error", [TryAgainLater(), DevicePaused()], ids=["place", "gpu"])
async def test_job__that_found_no_place__is_begun_again_without_counting(start: StartNode, error: ProverError) -> None:
    calls, prove = failing(*[error] * 5)
    node = start(prove)
    job = await node.ended(await node.submit())
    assert (job.state, job.attempt, calls[0]) == (JobState.COMPLETED, 1, 6)
    await node.shows(5, "job_retries", reason="handed_back")


async def test_job__that_takes_too_long__is_stopped_and_quarantined(start: StartNode) -> None:
    node = start(Gate(), job_deadline_s=0.2, attempts=2)
    job = await node.ended(await node.submit())
    assert job.state is JobState.FAILED
    assert "Proof generation timed out after 0.2 seconds." in (job.error or "")
    assert node.service.begun == 2
    await node.shows(2, "generation_errors", circuit_type="inclusion", error_type="proof_timeout")


async def test_job__cancelled_while_it_runs__stops_and_fails_as_cancelled(start: StartNode) -> None:
    node = start(Gate())
    job_id = await node.submit()
    await node.begun(job_id)
    await node.store.cancel(job_id)
    job = await node.ended(job_id)
    assert (job.state, job.error) == (JobState.FAILED, "cancelled")
    assert node.service.running == 0
    await node.shows(1, "jobs_processed", status="failed")


async def test_drain__before_its_deadline__lets_jobs_end_and_begins_none(start: StartNode) -> None:
    gate = Gate()
    node, other = start(gate), start(work=False)
    first, second = await node.submit(1), await node.submit(2)
    await node.begun(first)
    draining = asyncio.create_task(node.instance.drain(60))
    await asyncio.sleep(0)
    gate.open()
    await draining
    assert (await other.status(first)).state is JobState.COMPLETED
    assert (await other.status(second)).state is JobState.QUEUED
    assert node.service.begun == 1


async def test_drain__at_its_deadline__hands_jobs_back_without_counting(start: StartNode) -> None:
    node = start(Gate())
    job_id = await node.submit()
    await node.begun(job_id)
    await node.instance.drain(0)
    job = await node.status(job_id)
    assert (job.state, job.attempt) == (JobState.QUEUED, 0)
    await node.shows(1, "job_retries", reason="handed_back")
    assert node.service.running == 0
    other = start()
    assert (await other.ended(job_id)).attempt == 1


async def test_lease__ended_while_redis_was_unreachable__makes_the_late_outcome_count_nothing(start: StartNode) -> None:
    gate = Gate()
    deaf = start(gate, lease_s=2)
    job_id = await deaf.submit()
    await deaf.begun(job_id)
    beats = next(task for task in deaf.instance._background if task.get_name() == "heartbeats")
    beats.cancel()
    other = start(lease_s=2)
    job = await other.ended(job_id)
    assert (job.state, job.attempt) == (JobState.COMPLETED, 2)
    gate.open()
    await until(lambda: deaf.service.running == 0)
    assert deaf.sample("jobs_processed", status="completed") == 0
    await other.shows(1, "jobs_processed", status="completed")
    nodes = (deaf, other)
    assert sum(node.sample("job_retries", reason="lease_ended") for node in nodes) == 1


async def test_lease__lost__stops_the_proof(start: StartNode, redis_database: RedisServer) -> None:
    node = start(Gate())
    job_id = await node.submit()
    await node.begun(job_id)
    with redis_database.client() as client:
        client.hincrby(node.connection.keys.job(job_id), "fence", 1)
    await until(lambda: node.service.running == 0)
    await node.shows(1, "lease_losses", queue="zk_update_queue")


async def test_circuits__restricted__leave_other_jobs_to_others(start: StartNode) -> None:
    only = CircuitSelection(circuits_named(["v2_inclusion_32_2", "append-test"]))
    node = start(circuits=only)
    other_circuit = await node.submit(1)
    selected = await node.submit(body=OTHER.body, circuit=OTHER.circuit)
    await node.ended(selected)
    assert (await node.status(other_circuit)).state is JobState.QUEUED
    anything = start()
    assert (await anything.ended(other_circuit)).state is JobState.COMPLETED
    assert anything.service.begun == 1


@pytest.mark.parametrize(("slots", "total_slots", "most"), [(2, 4, 2), (4, 3, 3), (1, 1, 1)])
async def test_slots__of_a_queue_and_in_all__are_never_exceeded(
    start: StartNode, slots: int, total_slots: int, most: int
) -> None:
    reached = threading.Barrier(most + 1, timeout=60)

    def prove(task: ProofTask, cancel: CancelFlag) -> None:
        if not reached.broken:
            reached.wait()

    node = start(prove, slots=slots, total_slots=total_slots)
    jobs = [await node.submit(number) for number in range(3 * most)]
    for _ in range(3):
        await asyncio.to_thread(reached.wait)
    for job_id in jobs:
        await node.ended(job_id)
    assert node.service.most == most


async def test_queues__that_share_one_slot__take_turns(start: StartNode) -> None:
    api = start(work=False)
    for number in range(12):
        await api.submit(number)
    append = {"circuit": OTHER.circuit, "circuit_type": "append"}
    few = [await api.submit(number, OTHER.body, **append) for number in range(3)]
    begun: list[str] = []
    start(lambda task, _: begun.append(task.circuit.name), total_slots=1)
    for job_id in few:
        assert (await api.ended(job_id)).state is JobState.COMPLETED
    assert begun[:6].count(OTHER.circuit) == 3


async def test_wake_up__of_a_running_job__is_gone(start: StartNode, redis_database: RedisServer) -> None:
    gate = Gate()
    node = start(gate)
    running, waiting = await node.submit(1), await node.submit(2)
    await node.begun(running)
    await until(lambda: node.service.running == 1)
    with redis_database.client() as client:
        # Scalers read this as the number of waiting jobs.
        assert client.zcard(node.connection.keys.wake_queue(CircuitQueue.UPDATE)) == 1
        gate.open()
        await node.ended(waiting)
        await until(lambda: client.zcard(node.connection.keys.wake_queue(CircuitQueue.UPDATE)) == 0)


async def test_queues__of_one_instance__do_not_wait_for_each_other(start: StartNode) -> None:
    gate = Gate()

    def prove(task: ProofTask, cancel: CancelFlag) -> None:
        if task.circuit.name == "v2_inclusion_32_1":
            gate(task, cancel)

    node = start(prove)
    blocking, waiting = await node.submit(1), await node.submit(2)
    append = await node.submit(3, circuit_type="append", body=b'{"circuitType":"append","height":1}', circuit="")
    assert (await node.ended(append)).state is JobState.FAILED
    assert (await node.status(waiting)).state is JobState.QUEUED
    gate.open()
    assert (await node.ended(blocking)).state is JobState.COMPLETED
    assert (await node.ended(waiting)).state is JobState.COMPLETED


def leaders(*nodes: Node) -> int:
    return sum(node.sample("sweeps_here") == 1 for node in nodes)


def sweeps(*nodes: Node, kind: str = "stuck") -> float:
    return sum(node.sample("sweeps", kind=kind) for node in nodes)


async def test_sweeps__of_several_instances__are_each_made_by_one_of_them(start: StartNode) -> None:
    nodes = [start(work=False) for _ in range(3)]
    await until(lambda: all(sweeps(*nodes, kind=kind) >= 1 for kind in ("old_requests", "failed", "results")))
    await until(lambda: leaders(*nodes) == 1)
    started, made = time.monotonic(), sweeps(*nodes)
    await until(lambda: sweeps(*nodes) >= made + 6)
    assert time.monotonic() - started > 2.5  # two seconds, if each instance swept every second
    for node in nodes[:2]:
        await node.close()
    made = sweeps(nodes[2])
    await until(lambda: sweeps(nodes[2]) >= made + 2)
    await until(lambda: leaders(nodes[2]) == 1)


async def test_timers__with_entries_of_nobody_in_their_queue__continue(
    start: StartNode, redis_database: RedisServer
) -> None:
    node = start(work=False)
    name = node.connection.keys.timer_queue
    unreadable: dict[Any, float] = {b"\xff\xfe": 1}
    never_due: dict[Any, float] = {f"{name}:stuck:5": float("-inf"), "": 0, "x": 2}

    async def continues() -> None:
        made = sweeps(node)
        await until(lambda: sweeps(node) >= made + 2)

    await continues()
    with redis_database.client() as client:
        for entries in (unreadable, never_due):
            client.zadd(name, entries)
            await continues()
            assert [client.zscore(name, entry) for entry in entries] == [None] * len(entries)
        client.set(name, "x")
        await continues()


async def test_job__that_nobody_begins__expires_without_any_worker(start: StartNode) -> None:
    node = start(work=False, wait_limit_s=0.5)
    job = await node.ended(await node.submit())
    assert job.state is JobState.FAILED
    assert "job expired after " in (job.error or "")
    assert "(max: 500ms)" in (job.error or "")
    await node.shows(1, "expired_jobs", queue="zk_update_queue")
    await node.shows(1, "swept_jobs", kind="stuck")


async def test_figures__of_the_queue__report_what_waits_and_runs(start: StartNode) -> None:
    gate = Gate()
    worker = start(gate)
    jobs = [await worker.submit(number, tree_id=f"tree-{number}") for number in range(3)]
    await until(lambda: worker.service.running == 1)
    api = start(work=False)
    await until(lambda: api.sample("queue_depth", circuit_type="inclusion") == 2)
    await api.shows(1, "redis_up")
    await api.shows(1, "queue_processing", queue="zk_update_queue")
    assert api.sample("queue_oldest_age_seconds", queue="zk_update_queue") > 0
    assert api.sample("queue_bytes", queue="zk_update_queue") > 3 * 2000
    assert api.sample("queue_depth", circuit_type="update") == 0
    gate.open()
    for job_id in jobs:
        await worker.ended(job_id)


async def test_redis__restarted_under_a_proof__gets_its_outcome_and_loses_no_job(redis_start: StartRedis) -> None:
    server, gate = redis_start(appendonly=True), Gate()
    async with nodes_on(server.url) as start:
        node = start(gate)
        jobs = [await node.submit(number) for number in range(3)]
        await node.begun(jobs[0])
        await until(lambda: node.service.running == 1)  # Redis knows a moment before
        server.kill()
        gate.open()
        await until(lambda: node.sample("redis_up") == 0)
        assert node.service.begun == 1
        server.start()
        for job_id in jobs:
            assert (await node.ended(job_id)).state is JobState.COMPLETED
        assert node.service.begun == 3
        await until(lambda: node.sample("redis_up") == 1)


async def test_drain__of_a_job_begun_before_redis_restarted__waits_for_it(redis_start: StartRedis) -> None:
    server, gate = redis_start(appendonly=True), Gate()
    async with nodes_on(server.url) as start:
        node, other = start(gate, slots=2), start(work=False)  # a worker without a free slot does not poll
        job_id = await node.submit()
        await until(lambda: node.service.running == 1)
        server.kill()
        await until(lambda: node.sample("worker_restarts", queue="zk_update_queue") >= 1)
        server.start()
        await until(lambda: node.sample("redis_up") == 1)
        draining = asyncio.create_task(node.instance.drain(60))
        await asyncio.sleep(0.5)  # shows only that it does not end at once
        assert not draining.done()
        gate.open()
        await draining
        assert (await other.status(job_id)).state is JobState.COMPLETED
        assert node.service.begun == 1


async def test_drain__while_redis_is_unreachable__ends_and_leaves_the_job_to_its_lease(
    redis_start: StartRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instance, "_LAST_REPORTS_S", 0.3)
    server = redis_start(appendonly=True)
    async with nodes_on(server.url) as start:
        node = start(Gate())
        job_id = await node.submit()
        await node.begun(job_id)
        server.kill()
        async with asyncio.timeout(30):
            await node.instance.drain(0.1)
        assert node.service.running == 0
        server.start()
        other = start()
        job = await other.ended(job_id)
        assert (job.state, job.attempt) == (JobState.COMPLETED, 2)


async def test_redis__full__is_not_asked_without_a_pause_and_serves_when_there_is_room(redis_start: StartRedis) -> None:
    server = redis_start()
    async with nodes_on(server.url) as start:
        api = start(work=False)
        job_id = await api.submit()
        with server.client() as client:
            client.config_set("maxmemory", 1)
            client.config_resetstat()
            node = start()
            await asyncio.sleep(1.5)  # a rate needs a time
            statistics: Any = client.info("commandstats")
            calls = statistics["cmdstat_evalsha"]["calls"]
            assert (await api.status(job_id)).state is JobState.QUEUED
            client.config_set("maxmemory", 0)
        assert calls < 100
        assert (await node.ended(job_id)).state is JobState.COMPLETED


async def test_redis__filled_by_submissions__has_room_for_working_them_off(redis_start: StartRedis) -> None:
    server = redis_start()
    async with nodes_on(server.url) as start:
        api = start(work=False)
        with server.client() as client:
            memory: Any = client.info("memory")
            client.config_set("maxmemory", memory["used_memory"] + 8 * 2**20)
        job_ids: list[str] = []
        with suppress(QueueUnavailable):
            while len(job_ids) < 80:
                job_ids.append(await api.submit(100_000 + len(job_ids)))
        assert 10 < len(job_ids) < 80
        node = start(slots=4)
        assert {(await node.ended(job_id)).state for job_id in job_ids} == {JobState.COMPLETED}
        assert await api.submit(99_999)


async def test_redis__absent_at_the_start__is_used_when_it_comes(redis_start: StartRedis) -> None:
    server = redis_start()
    server.kill()
    async with nodes_on(server.url) as start:
        node = start()
        await until(lambda: node.sample("worker_restarts", queue="zk_append_queue") >= 2)
        assert (node.sample("redis_up"), node.sample("queue_configured")) == (0, 1)
        server.start()
        assert (await node.ended(await node.submit())).state is JobState.COMPLETED
