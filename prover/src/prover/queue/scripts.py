"""The Lua scripts, run by their digest: named arguments go in and named replies come out, both as msgpack."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

import msgspec
from redis.asyncio import Redis
from redis.exceptions import NoScriptError, RedisError

from prover.errors import QueueUnavailable, QueueUnusable
from prover.queue.faults import reach_fault, text_of, write_fault
from prover.queue.jobs import JobEvent, LeaseState, QueueStats
from shared.process.logs import get_logger
from shared.process.rate_limits import LogThrottle

_log = get_logger(__name__)

_LINES_APART_S = 10.0
_LINES_AT_ONCE = 20
_WRONG_TYPE = "WRONGTYPE"

OVERWRITTEN_REMEDY = (
    "another program or a person wrote to this key: read it, then RENAME or DEL it in Redis, and the prover makes it "
    "again; no restart is needed"
)

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


class OverwrittenKey(msgspec.Struct, frozen=True):
    """A key of the queue with the name of its type, and of the type that instances give it."""

    key: str
    found: str
    expected: str


class CheckReply(Reply, frozen=True):
    """Reply of check. ``refusal`` is the error of Redis for a write; empty if it accepts writes."""

    overwritten: list[OverwrittenKey]
    refusal: str


class WrongType(QueueUnavailable):
    """A key of the job queue in Redis has an unexpected type."""


@cache
def read_source(name: str) -> str:
    """Return the text of a script, preceded by the functions that all scripts share."""
    folder = files("prover.queue") / "lua"
    return (folder / "leases.lua").read_text() + (folder / f"{name}.lua").read_text()


class Scripts:
    """Scripts and commands of one Redis."""

    def __init__(self, redis: Redis, prefix: str) -> None:
        self._redis = redis
        self._prefix = prefix
        self._digests: dict[str, str] = {}
        # Without Redis, workers fail several times a second, and so does each request of a client.
        self._failures = LogThrottle(_LINES_APART_S, _LINES_AT_ONCE)
        self._damages = LogThrottle(_LINES_APART_S)

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
        try:
            return await self._evaluate(name, arguments, blob)
        except WrongType as error:
            await self.check()
            self.note_unavailable(command=name, error=str(error.__cause__))
            raise

    async def check(self) -> None:
        """Raise QueueUnavailable unless Redis can serve the queue.

        It is QueueUnusable if Redis refuses writes, or for an overwritten key, which it names.
        """
        reply = self.read(await self._evaluate("check", {}), CheckReply)
        if reply.overwritten:
            raise self._overwritten(reply.overwritten)
        if reply.refusal:
            raise self._refused(reply.refusal, command="check")

    def _overwritten(self, overwritten: list[OverwrittenKey]) -> QueueUnusable:
        if self._damages.due():
            for key in overwritten:
                _log.error("queue_key_overwritten", **msgspec.structs.asdict(key), remedy=OVERWRITTEN_REMEDY)
        first = overwritten[0]
        return QueueUnusable(
            f"the key {first.key} of the job queue was overwritten in Redis; it is a {first.found} and "
            f"must be a {first.expected}"
        )

    async def _evaluate(self, name: str, arguments: dict[str, Any], blob: bytes = b"") -> Any:
        packed = msgspec.msgpack.encode(arguments)
        digest = self._digests.get(name) or await self._load(name)
        words = (1, self._prefix, packed, blob)
        try:
            return await self.run_command("EVALSHA", digest, *words)
        except NoScriptError:
            return await self.run_command("EVALSHA", await self._load(name), *words)

    async def _load(self, name: str) -> str:
        digest: str = await self.run_command("SCRIPT LOAD", read_source(name))
        self._digests[name] = digest
        return digest

    async def run_command(self, *words: str | bytes | int) -> Any:
        """Run a command; raises QueueUnavailable, WrongType without a log line, and NoScriptError for EVALSHA."""
        try:
            return await self._redis.execute_command(*words)  # type: ignore[no-untyped-call]
        except NoScriptError:
            raise
        except (RedisError, OSError, TimeoutError) as error:
            if _WRONG_TYPE in str(error):
                raise WrongType from error
            # Errors of Redis may name hosts and users: they are logged, not sent to clients.
            facts = {"command": words[0], "type": type(error).__name__}
            raise self._refused(text_of(error), reach_fault(self._redis, error), **facts) from error

    def _refused(self, error: str, cause: str | None = None, **fields: object) -> QueueUnavailable:
        """Log a failed command, and return the error to raise: QueueUnusable if Redis refuses writes."""
        fault = write_fault(error)
        if fault is None:
            self.note_unavailable(error=error, **fields, **({"cause": cause} if cause else {}))
            return QueueUnavailable()
        self._log_some("queue_writes_refused", **fields, error=error, cause=fault.cause, remedy=fault.remedy)
        return QueueUnusable(f"the job queue cannot be changed: Redis refuses writes because {fault.cause}")

    def note_unavailable(self, **fields: object) -> None:
        """Log that a command failed; of many failures, some with the number of the others."""
        self._log_some("queue_unavailable", **fields)

    def _log_some(self, event: str, **fields: object) -> None:
        events = self._failures.due()
        if events:
            _log.warning(event, **fields, **({"suppressed": events - 1} if events > 1 else {}))
