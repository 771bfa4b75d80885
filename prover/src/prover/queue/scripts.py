"""The Lua scripts, run by their digest: named arguments go in and named replies come out, both as msgpack."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

import msgspec
from redis.asyncio import Redis
from redis.exceptions import NoScriptError, RedisError

from prover.errors import QueueUnavailable
from prover.queue.jobs import JobEvent, LeaseState, QueueStats
from shared.process.logs import get_logger

_log = get_logger(__name__)

ReplyType = TypeVar("ReplyType", bound="Reply")


class Reply(msgspec.Struct, frozen=True):
    """Members of every script's reply."""

    events: list[JobEvent]


class SubmitReply(Reply, frozen=True):
    """Reply of submit: ``new``, ``duplicate``, ``full`` or ``no_room``; ``nonce`` is of the existing job, in hex."""

    outcome: str
    id: str
    nonce: str = ""


class ClaimReply(Reply, frozen=True):
    """Reply of claim: ``job``, ``none`` or ``again``. Times are milliseconds."""

    outcome: str
    id: str = ""
    fence: int = 0
    type: str = ""
    circuit: str = ""
    tree: str = ""
    index: str = "-1"
    attempt: int = 0
    created: int = 0
    waited: int = 0


class OutcomeReply(Reply, frozen=True):
    """Reply of scripts that may refuse; ``done`` is False then."""

    done: bool


class SweepReply(Reply, frozen=True):
    """Reply of sweeps: changed jobs, and removed wake-ups that no instance can have written."""

    changed: int
    wake_ups: int = 0


class HeartbeatReply(Reply, frozen=True):
    """Reply of heartbeat."""

    beats: list[LeaseState]


class StatsReply(Reply, frozen=True):
    """Reply of stats."""

    stats: QueueStats


@cache
def read_source(name: str) -> str:
    """Return the text of a script, preceded by the functions that all scripts share."""
    folder = files("prover.queue") / "lua"
    return (folder / "leases.lua").read_text() + (folder / f"{name}.lua").read_text()


class Scripts:
    """Scripts of one Redis."""

    def __init__(self, redis: Redis, prefix: str) -> None:
        self._redis = redis
        self._prefix = prefix
        self._digests: dict[str, str] = {}

    @staticmethod
    def read(reply: bytes, kind: type[ReplyType]) -> ReplyType:
        """Return the decoded reply of a script; raises QueueUnavailable for a malformed one."""
        try:
            return msgspec.msgpack.decode(reply, type=kind)
        except (ValueError, TypeError) as error:
            _log.warning("queue_reply_malformed", reply=kind.__name__, error=str(error))
            raise QueueUnavailable from error

    async def call(self, name: str, arguments: dict[str, Any], blob: bytes = b"") -> Any:
        """Run a script, loaded first if the server does not know it; raises QueueUnavailable."""
        packed = msgspec.msgpack.encode(arguments)
        digest = self._digests.get(name) or await self._load(name)
        words = (1, self._prefix, packed, blob)
        try:
            return await run_command(self._redis, "EVALSHA", digest, *words)
        except NoScriptError:
            return await run_command(self._redis, "EVALSHA", await self._load(name), *words)

    async def _load(self, name: str) -> str:
        digest: str = await run_command(self._redis, "SCRIPT LOAD", read_source(name))
        self._digests[name] = digest
        return digest


async def run_command(redis: Redis, *words: str | bytes | int) -> Any:
    """Run a command of Redis; raises QueueUnavailable, and NoScriptError for EVALSHA."""
    try:
        return await redis.execute_command(*words)  # type: ignore[no-untyped-call]
    except NoScriptError:
        raise
    except (RedisError, OSError, TimeoutError) as error:
        # Errors of Redis may name hosts and users: they are logged, not sent to clients.
        _log.warning("queue_unavailable", command=words[0], error=str(error), type=type(error).__name__)
        raise QueueUnavailable from error
