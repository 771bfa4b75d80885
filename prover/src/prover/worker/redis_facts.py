"""What matters about a Redis before jobs are entrusted to it."""

import time
from dataclasses import dataclass

from redis.exceptions import RedisError

from prover.errors import QueueUnavailable
from prover.queue.connection import RedisConnection

KEEPS_EVERYTHING = "noeviction"


@dataclass(frozen=True)
class RedisFacts:
    """Facts about a Redis that answered. ``appends`` and ``eviction`` are None where it does not tell."""

    version: str
    answer_ms: float
    appends: bool | None
    """Whether it writes an append-only file: jobs survive its restart."""
    eviction: str | None
    """What it does when its memory is full."""


async def redis_facts(connection: RedisConnection) -> RedisFacts:
    """Ask a Redis about itself; raises QueueUnavailable with what it answered."""
    redis = connection.redis
    try:
        await redis.ping()
        started = time.perf_counter()
        await redis.ping()
        answer_ms = (time.perf_counter() - started) * 1000
    except (RedisError, OSError) as error:
        raise QueueUnavailable(f"{type(error).__name__}: {error}") from error
    try:
        told = await redis.info("everything")
    except (RedisError, OSError):  # some services do not let their users ask
        told = {}
    appends, eviction = told.get("aof_enabled"), told.get("maxmemory_policy")
    return RedisFacts(
        version=str(told.get("redis_version", "unknown")),
        answer_ms=answer_ms,
        appends=None if appends is None else bool(appends),
        eviction=None if eviction is None else str(eviction),
    )
