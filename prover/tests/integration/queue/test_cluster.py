"""Every key of every script is in one hash slot, and a server in cluster mode accepts the scripts."""

from __future__ import annotations

import asyncio
import binascii
import re
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
from local_processes import free_port
from queue_inspection import KEYS, Queue
from redis_server import StartRedis

from prover.queue import wake_ups
from prover.queue.circuit_queues import CircuitQueue
from prover.queue.jobs import Submission, SweepKind
from prover.settings import QueueSettings

SLOTS = 16384


def slot(key: bytes) -> int:
    """Return the slot of a key by the cluster specification: CRC16 (XMODEM) of the first {tag}, else of the key."""
    tag = re.search(rb"\{([^}]+)\}", key)
    return binascii.crc_hqx(tag[1] if tag else key, 0) % SLOTS


@pytest.fixture
async def cluster(redis_start: StartRedis) -> AsyncIterator[Queue]:
    bus = str(free_port())
    server = redis_start("--cluster-enabled", "yes", "--cluster-port", bus)
    deadline = time.monotonic() + 60
    with server.client() as client:
        client.execute_command("CLUSTER ADDSLOTSRANGE", 0, SLOTS - 1)  # type: ignore[no-untyped-call]
        while client.execute_command("CLUSTER INFO")["cluster_state"] != "ok":  # type: ignore[no-untyped-call]
            assert time.monotonic() < deadline
    queue = Queue(server, QueueSettings(lease_s=600))
    yield queue
    await queue.end()


async def live(queue: Queue) -> None:
    """Call everything that the store does, and what makes its scripts go every way."""
    for number in range(6):
        await queue.submit(Submission("update", "a", f"{number}".encode(), "tree" if number % 2 else ""))
    await queue.submit(Submission("update", "a", b"0"))
    await queue.submit(Submission("append", "", b"waits"))
    await queue.stats()
    done, failed, back, lost, cancelled = [await queue.claimed() for _ in range(5)]
    await queue.heartbeat([done, failed])
    await queue.finish(done, b"proof", 1)
    await queue.fail(failed, "constraint", deterministic=True)
    await queue.requeue(back, count_attempt=True, reason="pause")
    queue.look.end_lease(lost.job_id)
    await queue.heartbeat([])
    await queue.cancel(cancelled.job_id)
    await queue.cancel(back.job_id)
    await queue.fail(cancelled, "cancelled", deterministic=False)
    await queue.claim(CircuitQueue.APPEND, "worker", frozenset({"another"}))
    await queue.status(done.job_id)
    queue.client.delete(KEYS.wake_queue(CircuitQueue.APPEND))
    queue.look.age(lost.job_id, 4000)
    queue.look.age_final(done.job_id, 4000)
    queue.look.age_final(failed.job_id, 4000)
    for kind in SweepKind:
        await queue.sweep(kind, "a", 60)


async def commands_during(queue: Queue, work: Callable[[Queue], Coroutine[Any, Any, None]]) -> list[list[str]]:
    """Return every command that the server ran meanwhile, those of scripts included."""
    end = "end of the work"
    with queue.client.monitor() as monitor:
        await work(queue)
        await asyncio.to_thread(queue.client.echo, end)
        commands = []
        while (command := monitor.next_command()["command"]) != f"ECHO {end}":
            commands.append(command)
    return [command.split(" ") for command in commands]


async def test_keys__of_every_script__lie_in_one_slot(cluster: Queue) -> None:
    commands = await commands_during(cluster, live)
    names: set[str] = set()
    without_keys = {"SCRIPT", "TIME", "PUBLISH", "HELLO", "CLIENT", "SELECT", "SCAN", "INFO", "PING", "COMMAND"}
    for words in commands:
        if words[0].upper() not in without_keys:
            found: Any = cluster.client.execute_command("COMMAND GETKEYS", *words)
            names.update(found)
    assert any(name.startswith("arq:job:") for name in names)
    assert {f"{KEYS.wake_queue(queue)}:pending" for queue in CircuitQueue} <= names
    assert {slot(name.encode()) for name in names} == {slot(KEYS.prefix.encode())}


async def test_slot__as_computed_here__is_that_of_the_server(cluster: Queue) -> None:
    for key in (b"a", b"{b}c", b"arq:job:{zkc-prover}:1", KEYS.prefix.encode()):
        assert cluster.client.execute_command("CLUSTER KEYSLOT", key) == slot(key)


async def test_names_of_arq__for_a_wake_up__lie_in_the_slot_of_the_queue(cluster: Queue) -> None:
    await cluster.submit(Submission("update", "", b"body"))
    wake_up = cluster.client.zrange(KEYS.wake_queue(CircuitQueue.UPDATE), 0, -1)[0]
    for prefix in (b"", b"arq:job:", b"arq:in-progress:", b"arq:retry:", b"arq:result:"):
        assert slot(prefix + wake_up) == slot(KEYS.prefix.encode())
    assert slot(f"{KEYS.wake_queue(CircuitQueue.UPDATE)}:health-check".encode()) == slot(KEYS.prefix.encode())


async def test_wake_up__as_written_by_the_script__is_an_arq_job(cluster: Queue) -> None:
    await cluster.submit(Submission("append", "", b"body"))
    (job,) = await cluster.connection.redis.queued_jobs(queue_name=KEYS.wake_queue(CircuitQueue.APPEND))
    assert (job.function, list(job.args), job.kwargs) == (wake_ups.FUNCTION, [CircuitQueue.APPEND.value], {})
    assert job.job_try == 1
    assert job.score is not None
    assert 0 < job.score < 10**9
