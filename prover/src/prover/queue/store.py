"""The job store: every change of a job is one script in Redis, so a job is always in exactly one state."""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from prover.errors import NetworkQueueFull, QueueFull, QueueUnavailable
from prover.queue import records, wake_ups
from prover.queue.circuit_queues import CircuitQueue
from prover.queue.connection import RedisConnection
from prover.queue.job_ids import new_job_id
from prover.queue.jobs import (
    Claim,
    EventKind,
    JobEvent,
    JobStatus,
    LeaseState,
    QueueStats,
    Submission,
    SubmissionResult,
    SweepKind,
)
from prover.queue.scripts import (
    ClaimReply,
    HeartbeatReply,
    OutcomeReply,
    Reply,
    ReplyType,
    Scripts,
    StatsReply,
    SubmitReply,
    SweepReply,
    WrongType,
)
from prover.queue.watch import Watch
from prover.settings import QueueSettings
from shared.process.logs import get_logger

FULL_RETRY_S: Final = 10
NETWORK_FULL_RETRY_S: Final = 5
"""Pause after a refusal by a queue of a network, as in the reference."""
LONGEST_ID: Final = 64
_NO_ROOM: Final = "nine tenths of the memory of Redis are in use"
_LONGEST_BODY: Final = 2**24
"""Bytes; no instance stores a longer body, and a job with a longer one is treated as a job without a body."""
_STUCK_MS: Final = 120_000
"""Running jobs older than this count as stuck in statistics, as in the reference."""
STATUS_POLL_S: Final = 2.0
"""Period at which ``wait`` reads the status without a message; messages get lost when Redis restarts."""


_log = get_logger(__name__)


def _ignore(event: JobEvent) -> None:
    """Ignore an event."""


class JobStore:
    """The jobs of all processes that share one Redis.

    Every method raises QueueUnavailable when Redis does not answer or cannot serve the queue. A call that
    failed may have taken effect; each may be repeated safely.
    """

    def __init__(
        self,
        connection: RedisConnection,
        settings: QueueSettings | None = None,
        observe: Callable[[JobEvent], None] = _ignore,
    ) -> None:
        """Use the bounds and times of ``settings``; leases may differ from those of other processes on one Redis.

        ``observe`` is called for each effect that calls of this object had on jobs; it must not raise.
        """
        self.keys = connection.keys
        self._settings = settings or QueueSettings()
        self._scripts = Scripts(connection.redis, connection.keys.prefix)
        self._watch = Watch(connection.redis, connection.keys.events)
        self._observe = observe
        self._times = _times_of(self._settings)

    async def close(self) -> None:
        """End the subscription of ``wait``; the connection stays open."""
        await self._watch.close()

    async def check(self) -> None:
        """Raise QueueUnavailable unless Redis can serve the queue; costs one command."""
        await self._scripts.check()

    async def submit(self, submission: Submission) -> SubmissionResult:
        """Add a request to its circuit queue, or find the job of an equal body.

        Raises QueueFull when the queue is at its bound of jobs or bytes, and QueueUnavailable also when nine tenths of
        the memory of Redis are in use.
        """
        queue = submission.queue
        nonce, job_id = new_job_id(submission.statement)
        arguments = {
            "id": job_id,
            "nonce": nonce.hex(),
            "inputs": submission.public_inputs.hex(),
            "jobs_per_queue": self._settings.depth_limit_of(queue.network),
            "bytes_per_queue": self._settings.memory_limit_bytes,
            **records.placement(submission),
        }
        reply = await self._run("submit", SubmitReply, arguments, submission.body)
        if reply.outcome == "duplicate" and not records.is_job_of(reply, submission):
            _log.warning("duplicate_rejected", job_id=reply.id[:LONGEST_ID], detail="its id is not bound to this body")
            reply = await self._run("submit", SubmitReply, arguments | {"fresh": True}, submission.body)
        if reply.outcome == "full":
            raise _full(queue)
        if reply.outcome == "no_room":
            self._scripts.note_unavailable(command="submit", error=_NO_ROOM)
            raise QueueUnavailable(f"the job queue accepts no jobs now: {_NO_ROOM}")
        return SubmissionResult(reply.id, reply.outcome == "duplicate")

    async def status(self, job_id: str) -> JobStatus | None:
        """Return the status by one read of a small hash; None for an id that is unknown or was removed.

        A record that no instance can have written is removed.
        """
        if len(job_id) > LONGEST_ID:
            return None
        try:
            values = await self._scripts.run_command("HMGET", self.keys.job(job_id), *records.STATUS_FIELDS)
            return records.status(job_id, values)
        except records.RecordMalformed as error:
            reason = str(error)
        except WrongType:
            reason = "its record is not a hash"
        await self.remove(job_id, reason)
        return None

    async def wait(self, job_id: str, seconds: float) -> JobStatus | None:
        """Return the status once the state is final or differs from that at the call, or the time is over."""
        deadline = time.monotonic() + seconds
        with self._watch.of(job_id) as changed:
            first = found = await self.status(job_id)
            while found is not None and first is not None and found.state is first.state and not found.state.is_final:
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    break
                try:
                    async with asyncio.timeout(min(remaining, STATUS_POLL_S)):
                        await changed.wait()
                except TimeoutError:
                    pass
                changed.clear()
                found = await self.status(job_id)
            return found

    async def cancel(self, job_id: str) -> JobStatus | None:
        """End a waiting job as failed with ``cancelled``; ask the worker of a running one to stop.

        Returns the status afterwards. Final jobs stay as they are, and so do those that were submitted more than once:
        another client may wait for them.
        """
        if len(job_id) > LONGEST_ID:
            return None
        await self._run("cancel", Reply, {"id": job_id})
        return await self.status(job_id)

    async def claim(
        self, queue: CircuitQueue, owner: str, circuits: frozenset[str] | None, wake_up: str = ""
    ) -> Claim | None:
        """Claim the next job: round robin over trees, ascending batch index within a tree.

        ``circuits`` limits the choice to jobs submitted with one of these circuit names (empty: not known at
        submission); None takes any. ``wake_up`` names the entry of arq that the claim uses up, if any. Jobs that
        waited too long fail on the way.
        """
        arguments = {
            "queue": queue.value,
            "owner": owner,
            "call": secrets.token_hex(8),
            "circuits": None if circuits is None else sorted(circuits),
            "longest_body": _LONGEST_BODY,
            "wake_up": wake_up,
        }
        while True:
            packed, body = await self._scripts.call("claim", self._with_times(arguments))
            reply = self._scripts.read(packed, ClaimReply)
            self._publish(reply.events)
            if reply.outcome == "job":
                try:
                    return records.claim(reply, queue, body)
                except records.RecordMalformed as error:
                    await self.remove(reply.id, str(error))
            if reply.outcome == "none":
                return None

    async def heartbeat(self, claims: Sequence[Claim]) -> list[LeaseState]:
        """Renew leases and return one state per claim, in order.

        Also requeues the jobs of dead workers, so call it regularly even without claims.
        """
        named = [{"id": claim.job_id, "fence": claim.fence} for claim in claims]
        reply = await self._run("heartbeat", HeartbeatReply, {"claims": named})
        return reply.beats

    async def finish(self, claim: Claim, proof: bytes, duration_ms: int) -> bool:
        """Complete a job; False, without effect, when the lease was lost."""
        return (await self._run("finish", OutcomeReply, {**_named(claim), "duration_ms": duration_ms}, proof)).done

    async def fail(self, claim: Claim, error: str, *, deterministic: bool) -> bool:
        """End a job as failed; False, without effect, when the lease was lost.

        Equal bodies get the same failure while a ``deterministic`` one is kept; after others an equal body is a new
        job.
        """
        arguments = {**_named(claim), "error": records.bounded(error), "deterministic": deterministic}
        return (await self._run("fail", OutcomeReply, arguments)).done

    async def requeue(self, claim: Claim, *, count_attempt: bool, reason: str, waits_on: bool = False) -> bool:
        """Requeue a job; False, without effect, when the lease was lost.

        A job that used up its attempts fails with the reason instead, one whose cancellation was requested fails
        as cancelled. With ``waits_on`` its earlier waiting counts towards its limit, otherwise it has the whole time.
        """
        choices = {"count_attempt": count_attempt, "waits_on": waits_on}
        arguments = {**_named(claim), **choices, "reason": records.bounded(reason)}
        return (await self._run("requeue", OutcomeReply, arguments)).done

    async def remove(self, job_id: str, reason: str) -> None:
        """Remove a job whose record or result no instance can have written; an equal body becomes a new job."""
        await self._run("remove", Reply, {"id": job_id})
        self._observe(JobEvent(EventKind.REMOVED, job_id[:LONGEST_ID], CircuitQueue.of(None), detail=reason))

    async def stats(self) -> QueueStats:
        """Return exact counts, by reads that do not grow with the number of jobs."""
        return (await self._run("stats", StatsReply, {})).stats

    async def sweep(self, kind: SweepKind, sweeper: str = "", hold_s: float = 0) -> int:
        """Run one kind of sweep and return the number of changed jobs; several instances may run it at once.

        Statistics name the ``sweeper`` of the latest STUCK sweep for ``hold_s`` seconds.
        """
        name, arguments = {
            SweepKind.STUCK: ("sweep_stuck", {"sweeper": sweeper, "hold_ms": math.ceil(hold_s * 1000)}),
            SweepKind.OLD_REQUESTS: ("sweep_requests", {}),
            SweepKind.FAILED: ("sweep_ended", {"index": "failed", "keep_ms": self._times["failure_ms"]}),
            SweepKind.RESULTS: ("sweep_ended", {"index": "results", "keep_ms": self._times["result_ms"]}),
        }[kind]
        total = 0
        while True:
            swept = await self._run(name, SweepReply, arguments)
            if swept.wake_ups:
                self._observe(JobEvent(EventKind.WAKE_UPS_REMOVED, "", CircuitQueue.of(None), entries=swept.wake_ups))
            if not swept.changed:
                return total
            total += swept.changed

    async def _run(self, script: str, kind: type[ReplyType], arguments: dict[str, Any], blob: bytes = b"") -> ReplyType:
        reply = self._scripts.read(await self._scripts.call(script, self._with_times(arguments), blob), kind)
        self._publish(reply.events)
        return reply

    def _with_times(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {**self._times, "wake_up_function": wake_ups.FUNCTION, **arguments}

    def _publish(self, events: Sequence[JobEvent]) -> None:
        for event in events:
            self._observe(event)


def _times_of(settings: QueueSettings) -> dict[str, int]:
    """Return the times in milliseconds and the numbers that the scripts expect."""
    seconds = {
        "max_wait_ms": settings.wait_limit_s,
        "lease_ms": settings.lease_s,
        "result_ms": settings.result_age_s,
        "failure_ms": settings.failure_age_s,
        # A job may wait for as long as was set.
        "request_ms": max(settings.request_age_s, settings.wait_limit_s),
    }
    numbers = {"stuck_ms": _STUCK_MS, "attempts": settings.attempts, "kept_failures": settings.failure_limit}
    return {name: max(1, round(value * 1000)) for name, value in seconds.items()} | numbers


def _full(queue: CircuitQueue) -> QueueFull:
    detail = f"the queue {queue.queue_name} is full; send the request again later"
    if queue.network is None:
        return QueueFull(detail, retry_after_s=FULL_RETRY_S)
    return NetworkQueueFull(detail, retry_after_s=NETWORK_FULL_RETRY_S)


def _named(claim: Claim) -> dict[str, Any]:
    return {"id": claim.job_id, "fence": claim.fence}
