"""Facts about a Redis that decide whether it can keep jobs."""

import time
from dataclasses import dataclass

from redis.exceptions import RedisError

from prover.errors import QueueUnavailable
from prover.queue.connection import RedisConnection
from prover.queue.faults import WriteFault, reach_fault, text_of, write_fault

KEEPS_EVERYTHING = "noeviction"


@dataclass(frozen=True)
class RedisFacts:
    """Facts about a Redis that answered. ``appends`` and ``eviction`` are None if it does not report them."""

    version: str
    answer_ms: float
    appends: bool | None
    """True if it writes an append-only file: jobs survive its restart."""
    eviction: str | None
    """Its policy when its memory is full."""
    is_cluster: bool = False
    """Whether it is in cluster mode."""
    refusal: WriteFault | None = None
    """The reason for which it refuses writes."""


async def redis_facts(connection: RedisConnection) -> RedisFacts:
    """Query a Redis for its facts; raises QueueUnavailable with the reason."""
    redis = connection.redis
    try:
        await redis.ping()
        started = time.perf_counter()
        await redis.ping()
        answer_ms = (time.perf_counter() - started) * 1000
    except (RedisError, OSError) as error:
        raise QueueUnavailable(reach_fault(redis, error) or f"{type(error).__name__}: {error}") from error
    refusal = None
    try:
        await redis.set(connection.keys.unused, "", xx=True)  # writes nothing: the key never exists
    except (RedisError, OSError) as error:
        refusal = write_fault(text_of(error))
    try:
        info = await redis.info("everything")
    except (RedisError, OSError):  # some services refuse INFO to their users
        info = {}
    appends, eviction = info.get("aof_enabled"), info.get("maxmemory_policy")
    return RedisFacts(
        version=str(info.get("redis_version", "unknown")),
        answer_ms=answer_ms,
        appends=None if appends is None else bool(appends),
        eviction=None if eviction is None else str(eviction),
        is_cluster=bool(info.get("cluster_enabled")),
        refusal=refusal,
    )
