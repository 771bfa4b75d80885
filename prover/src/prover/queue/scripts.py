"""The Lua scripts, run by their digest: named arguments go in and named answers come out, both as msgpack."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

import msgspec
from redis.asyncio import Redis
from redis.exceptions import NoScriptError, RedisError

from prover.errors import QueueUnavailable
from prover.queue.circuit_queues import CircuitQueue
from prover.queue.jobs import Beat, EventKind
from shared.logs import get_logger

_log = get_logger(__name__)

Answer = TypeVar("Answer", bound="Reply")


class Happening(msgspec.Struct, frozen=True):
    """An event as scripts report it; ``waited`` is milliseconds, or -1."""

    kind: EventKind
    id: str
    lane: CircuitQueue
    type: str
    detail: str
    waited: int


class Reply(msgspec.Struct, frozen=True):
    """What every script answers."""

    events: list[Happening]


class Placed(Reply, frozen=True):
    """Answer of submit: ``new``, ``duplicate`` or ``full``; ``nonce`` is that of the job which is there, in hex."""

    answer: str
    id: str
    nonce: str = ""


class Taken(Reply, frozen=True):
    """Answer of claim: ``job``, ``none`` or ``again``. Times are milliseconds."""

    answer: str
    id: str = ""
    fence: int = 0
    type: str = ""
    circuit: str = ""
    tree: str = ""
    index: str = "-1"
    attempt: int = 0
    created: int = 0
    waited: int = 0


class Done(Reply, frozen=True):
    """Answer of scripts that do something or not."""

    done: bool


class Changed(Reply, frozen=True):
    """Answer of sweeps; ``deposed`` when the caller no longer has the role that it named."""

    changed: int
    deposed: bool = False


class Beats(Reply, frozen=True):
    """Answer of heartbeat."""

    beats: list[Beat]


class CircuitQueueCounts(msgspec.Struct, frozen=True):
    """Counts of a lane; ``types`` has names and numbers by turns, ``oldest`` is milliseconds."""

    lane: CircuitQueue
    waiting: int
    without_tree: int
    trees: int
    processing: int
    stuck: int
    oldest: int
    types: list[str]
    bytes: int
    wake_ups: int


class Counts(Reply, frozen=True):
    """Answer of stats."""

    lanes: list[CircuitQueueCounts]
    failed: int
    results: int
    now: int


@cache
def source(name: str) -> str:
    """Text of a script, with the part common to all."""
    folder = files("prover.queue") / "lua"
    return (folder / "leases.lua").read_text() + (folder / f"{name}.lua").read_text()


class Scripts:
    """Scripts of one Redis."""

    def __init__(self, redis: Redis, prefix: str) -> None:
        self._redis = redis
        self._prefix = prefix
        self._digests: dict[str, str] = {}

    @staticmethod
    def read(answer: bytes, kind: type[Answer]) -> Answer:
        """Return what a script answered; raises QueueUnavailable for what no script of ours answers."""
        try:
            return msgspec.msgpack.decode(answer, type=kind)
        except (ValueError, TypeError) as error:
            _log.warning("queue_answer_malformed", answer=kind.__name__, error=str(error))
            raise QueueUnavailable from error

    async def call(self, name: str, arguments: dict[str, Any], blob: bytes = b"") -> Any:
        """Run a script; raises QueueUnavailable. A script that the server does not know is loaded first."""
        packed = msgspec.msgpack.encode(arguments)
        digest = self._digests.get(name) or await self._load(name)
        words = (1, self._prefix, packed, blob)
        try:
            return await command(self._redis, "EVALSHA", digest, *words)
        except NoScriptError:
            return await command(self._redis, "EVALSHA", await self._load(name), *words)

    async def _load(self, name: str) -> str:
        digest: str = await command(self._redis, "SCRIPT LOAD", source(name))
        self._digests[name] = digest
        return digest


async def command(redis: Redis, *words: str | bytes | int) -> Any:
    """Run a command of Redis; raises QueueUnavailable, and NoScriptError for EVALSHA."""
    try:
        return await redis.execute_command(*words)  # type: ignore[no-untyped-call]
    except NoScriptError:
        raise
    except (RedisError, OSError, TimeoutError) as error:
        # What Redis says may name hosts and users: it goes to the log, not to clients.
        _log.warning("queue_unavailable", command=words[0], error=str(error), type=type(error).__name__)
        raise QueueUnavailable from error
