"""Wake-ups that no instance wrote: removed and counted, while the queue continues."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from queue_instances import StartNode, nodes_on, until
from redis_server import RedisServer

from prover.queue.circuit_queues import CircuitQueue
from prover.queue.jobs import JobState
from prover.queue.redis_names import RedisNames

QUEUE = RedisNames().wake_queue(CircuitQueue.UPDATE)
GOOD: dict[str, Any] = {"t": 1, "f": "claim", "a": [CircuitQueue.UPDATE.value], "k": {}, "et": 1_700_000_000_000}


class Payload:
    """Creates a file if pickle makes it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, ("raise SystemExit('unpickled')",))


CONTENTS: dict[str, bytes] = {
    "pickle": pickle.dumps({**GOOD, "a": [Payload()]}),
    "no json": b"\xff\xfe{",
    "empty": b"",
    "a list": b"[]",
    "no members": b"{}",
    "function a list": json.dumps({**GOOD, "f": ["claim"]}).encode(),
    "function unknown": json.dumps({**GOOD, "f": "other"}).encode(),
    "try a text": json.dumps({**GOOD, "t": "x"}).encode(),
    "try huge": json.dumps({**GOOD, "t": 10**300}).encode(),
    "time a text": json.dumps({**GOOD, "et": "x"}).encode(),
    "time huge": json.dumps({**GOOD, "et": 10**30}).encode(),
    "arguments a number": json.dumps({**GOOD, "a": 5}).encode(),
    "arguments many": json.dumps({**GOOD, "a": ["x"] * 100}).encode(),
    "keywords": json.dumps({**GOOD, "k": {"x": 1}}).encode(),
    "deep": b'{"k":' * 5000,
}


@pytest.fixture
async def start(redis_database: RedisServer) -> AsyncIterator[StartNode]:
    async with nodes_on(redis_database.url) as start:
        yield start


def plant(client: Any, number: int, content: bytes | None = None) -> str:
    """Write a wake-up with a name as the scripts give it; return the name."""
    name = f"{QUEUE}:{10**9 + number}"
    if content is not None:
        client.set(f"arq:job:{name}", content)
    client.zadd(QUEUE, {name: 1 + number})
    return name


async def proves_on(start: StartNode, redis_database: RedisServer, planted: int, restarts: int = 0) -> None:
    """Require that a worker removes this many wake-ups, counts them and proves a job submitted after them."""
    node = start(slots=1)
    job_id = await node.submit()
    assert (await node.ended(job_id)).state is JobState.COMPLETED
    with redis_database.client() as client:
        await until(lambda: client.exists(QUEUE) == 0)
        await until(lambda: not list(client.scan_iter(f"arq:*{QUEUE}*")))
    await node.shows(planted, "queue_removals", kind="wake_up")
    assert node.sample("worker_restarts", queue=QUEUE.split(":")[-1]) <= restarts


async def test_wake_ups__of_any_content__are_removed_and_the_next_job_is_proved(
    start: StartNode, redis_database: RedisServer
) -> None:
    with redis_database.client() as client:
        for number, content in enumerate(CONTENTS.values()):
            plant(client, number, content)
    # arq takes an empty one for one that has expired, and removes it without a word.
    await proves_on(start, redis_database, len(CONTENTS) - 1)


async def test_wake_ups__with_names_and_scores_of_nobody__are_removed(
    start: StartNode, redis_database: RedisServer
) -> None:
    with redis_database.client() as client:
        names: dict[Any, float] = {b"\xff\xfe": 1, "": 2, "x" * 10_000: 3, f"{QUEUE}:1x": 4, "arq:job:x": 5}
        names |= {f"{QUEUE}:{10**6 + number}": 0 for number in range(300)}
        names |= {f"{QUEUE}:1000999": float("-inf"), f"{QUEUE}:1000998": -5}
        client.zadd(QUEUE, names)
    await proves_on(start, redis_database, len(names))


async def test_wake_ups__whose_keys_have_other_types__are_removed(
    start: StartNode, redis_database: RedisServer
) -> None:
    content = json.dumps(GOOD).encode()
    with redis_database.client() as client:
        client.lpush(f"arq:job:{plant(client, 1)}", "x")
        client.set(f"arq:retry:{plant(client, 2, content)}", "many")
        client.hset(f"arq:retry:{plant(client, 3, content)}", "a", "b")
    # arq fails on each; jobs that it has started continue.
    await proves_on(start, redis_database, 3, restarts=3)


async def test_queue__that_is_a_text__is_removed_and_made_again(start: StartNode, redis_database: RedisServer) -> None:
    node = start(slots=1)
    await node.shows(1, "redis_up")
    with redis_database.client() as client:
        client.set(QUEUE, "x")
        await node.shows(1, "queue_removals", kind="wake_up")
        started = time.monotonic()
        job_id = await node.submit()
        assert (await node.ended(job_id)).state is JobState.COMPLETED
    assert time.monotonic() - started < 30
