"""Reasons for which Redis cannot be reached or refuses writes, in plain words."""

import re
from typing import NamedTuple

from redis.asyncio import Redis
from redis.asyncio.connection import SSLConnection
from redis.exceptions import OutOfMemoryError, ReadOnlyError
from redis.exceptions import TimeoutError as RedisTimeoutError

from shared.process.connection_faults import connection_fault


class WriteFault(NamedTuple):
    """A reason that clients may read, and its remedy for operators."""

    cause: str
    remedy: str


_FAULTS = {
    "OOM": WriteFault(
        "its memory is full",
        "raise its maxmemory, or remove what other programs keep in it; jobs that end free memory, too",
    ),
    "MISCONF": WriteFault(
        "it cannot save its data",
        "free space on its disk, or find the reason in its log; a server with an append-only file needs no snapshots: "
        'CONFIG SET save ""',
    ),
    "READONLY": WriteFault(
        "it is a replica",
        "name its primary in --redis-url, or its Sentinels with redis+sentinel://",
    ),
    "NOREPLICAS": WriteFault(
        "it has fewer replicas than it needs",
        "start its replicas, or lower its min-replicas-to-write",
    ),
}

_CODES: dict[type[Exception], str] = {OutOfMemoryError: "OOM", ReadOnlyError: "READONLY"}
"""Codes that redis-py removes from the texts of errors."""


def text_of(error: Exception) -> str:
    """Return the text of an error of Redis, with its code."""
    return f"{_CODES.get(type(error), '')} {error}".strip()


def reach_fault(redis: Redis, error: Exception) -> str | None:
    """Return why a Redis cannot be reached, and what to check; None if the error says it, or is an answer of Redis."""
    uses_tls = issubclass(redis.connection_pool.connection_class, SSLConnection)
    # A server without TLS waits for the rest of what it reads as a command.
    if uses_tls and isinstance(error, RedisTimeoutError) and "connecting" in str(error):
        return "no connection with TLS in time: check the address, and that its port expects TLS (redis:// is without)"
    return connection_fault(error)


def write_fault(error: str) -> WriteFault | None:
    """Return the reason for which Redis answered a write with an error; None if the error has another reason."""
    return next((fault for word, fault in _FAULTS.items() if re.search(rf"\b{word}\b", error)), None)
