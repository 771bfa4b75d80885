"""Check that the Redis of the job queue answers, accepts jobs and loses none."""

import asyncio
from collections.abc import Sequence

from prover.cli.checks.result import CheckResult, Status
from prover.errors import QueueUnavailable
from prover.queue.connection import RedisConnection, Weakness
from prover.worker.redis_facts import KEEPS_EVERYTHING, RedisFacts, redis_facts

_NAME = "Redis"
_TIMEOUT_S = 5


def check_redis(url: str) -> CheckResult:
    """Connect to Redis and check how it keeps jobs; raises SettingsInvalid for a malformed address."""
    connection = RedisConnection.open(url, timeout_s=_TIMEOUT_S)
    try:
        facts = asyncio.run(_ask(connection))
    except QueueUnavailable as error:
        hint = "start Redis or correct --redis-url; the prover starts without Redis and keeps trying"
        return CheckResult(_NAME, Status.FAILURE, f"{connection.address} does not answer: {error.detail}", hint)
    return judge(connection.address, facts, connection.weaknesses)


def judge(address: str, facts: RedisFacts, weaknesses: Sequence[Weakness] = ()) -> CheckResult:
    """Return the check of the facts by which a Redis refuses jobs, may lose them, or admits other clients."""
    detail = f"{address} answers in {facts.answer_ms:.1f} ms, version {facts.version}"
    if facts.refusal is not None:
        return CheckResult(
            _NAME, Status.FAILURE, f"{detail}, and refuses writes because {facts.refusal.cause}", facts.refusal.remedy
        )
    dangers, hints = [weakness.detail for weakness in weaknesses], [weakness.remedy for weakness in weaknesses]
    if facts.appends is False:
        dangers.append("no append-only file")
        hints.append("set appendonly yes; without it a restart of Redis loses jobs")
    if facts.eviction not in (None, KEEPS_EVERYTHING):
        dangers.append(f"evicts ({facts.eviction})")
        hints.append(f"set maxmemory-policy {KEEPS_EVERYTHING}; any other policy may delete jobs")
    if facts.is_cluster:
        dangers.append("cluster mode")
        hints.append("use a Redis that is not in cluster mode; workers fail on one that is")
    if dangers:
        return CheckResult(_NAME, Status.WARNING, f"{detail}, {', '.join(dangers)}", "; ".join(hints))
    return CheckResult(_NAME, Status.OK, detail)


async def _ask(connection: RedisConnection) -> RedisFacts:
    try:
        return await redis_facts(connection)
    finally:
        await connection.close()
