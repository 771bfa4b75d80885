"""The job store: every change of a job is one script in Redis, so a job is always in exactly one state."""

from __future__ import annotations

import asyncio
import hashlib
import math
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from prover.errors import QueueFull
from prover.queue import records, wake_ups
from prover.queue.circuit_queues import CircuitQueue
from prover.queue.connection import RedisConnection
from prover.queue.job_ids import job_id_of, new_nonce
from prover.queue.jobs import (
    Beat,
    Claim,
    EventKind,
    JobEvent,
    JobStatus,
    QueueStats,
    Submission,
    Submitted,
    SweepKind,
)
from prover.queue.limits import QueueLimits
from prover.queue.scripts import (
    Answer,
    Beats,
    Changed,
    Counts,
    Done,
    Happening,
    Placed,
    Reply,
    Scripts,
    Taken,
    command,
)
from prover.queue.watch import Watch
from shared.logs import get_logger

FULL_RETRY_S: Final = 10
LONGEST_ID: Final = 64
_LONGEST_BODY: Final = 2**24
"""No instance stores a longer one; a job with one counts as a job without a body."""
LOOK_AGAIN_S: Final = 2.0
"""How long ``wait`` relies on being told; messages get lost when Redis restarts."""


_log = get_logger(__name__)


def _ignore(event: JobEvent) -> None:
    """Observes nothing."""


class JobStore:
    """The jobs of all processes that share one Redis.

    Every method raises QueueUnavailable when Redis does not answer. A call that failed may have taken effect; each
    may be repeated safely.
    """

    def __init__(
        self,
        connection: RedisConnection,
        limits: QueueLimits | None = None,
        observe: Callable[[JobEvent], None] = _ignore,
    ) -> None:
        """``observe`` is called for everything that calls of this object did to jobs; it must not raise."""
        self.keys = connection.keys
        self.limits = limits or QueueLimits()
        self._redis = connection.redis
        self._scripts = Scripts(connection.redis, connection.keys.prefix)
        self._watch = Watch(connection.redis, connection.keys.events)
        self._observe = observe
        self._times = self.limits.milliseconds()

    async def close(self) -> None:
        """End what ``wait`` needs; the connection stays open."""
        await self._watch.close()

    async def ping(self) -> None:
        """Raises QueueUnavailable unless Redis answers."""
        await command(self._redis, "PING")

    async def submit(self, submission: Submission) -> Submitted:
        """Put a request into its lane, or find the job of an equal body.

        Raises QueueFull when the lane is at its bound of jobs or bytes.
        """
        lane = CircuitQueue.of(submission.circuit_type)
        nonce = new_nonce()
        arguments = {
            "id": job_id_of(nonce, submission.statement),
            "nonce": nonce.hex(),
            "inputs": submission.public_inputs.hex(),
            "digest": hashlib.sha256(submission.body).hexdigest(),
            "lane": lane.value,
            "lane_jobs": self.limits.lane_jobs,
            "lane_bytes": self.limits.lane_bytes,
            **records.placement(submission),
        }
        placed = await self._run("submit", Placed, arguments, submission.body)
        if placed.answer == "duplicate" and not records.is_job_of(placed, submission):
            _log.warning(
                "duplicate_rejected", job_id=placed.id[:LONGEST_ID], detail="its id does not stand for this body"
            )
            placed = await self._run("submit", Placed, arguments | {"fresh": True}, submission.body)
        if placed.answer == "full":
            raise QueueFull(
                f"the queue {lane.queue_name} is full; send the request again later", retry_after_s=FULL_RETRY_S
            )
        return Submitted(placed.id, placed.answer == "duplicate")

    async def status(self, job_id: str) -> JobStatus | None:
        """One read of a small hash; None for an id that is unknown or was removed.

        A record that no instance can have written is removed.
        """
        if len(job_id) > LONGEST_ID:
            return None
        values = await command(self._redis, "HMGET", self.keys.job(job_id), *records.STATUS_FIELDS)
        try:
            return records.status(job_id, values)
        except records.RecordMalformed as error:
            await self.remove(job_id, str(error))
            return None

    async def wait(self, job_id: str, seconds: float) -> JobStatus | None:
        """Like ``status``, once the state differs from that at the call, is final, or the time is over."""
        deadline = time.monotonic() + seconds
        with self._watch.of(job_id) as changed:
            first = found = await self.status(job_id)
            while found is not None and first is not None and found.state is first.state and not found.state.is_final:
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    break
                try:
                    async with asyncio.timeout(min(remaining, LOOK_AGAIN_S)):
                        await changed.wait()
                except TimeoutError:
                    pass
                changed.clear()
                found = await self.status(job_id)
            return found

    async def cancel(self, job_id: str) -> JobStatus | None:
        """End a waiting job as failed with ``cancelled``; ask the worker of a running one to stop.

        Returns the status afterwards. Final jobs stay as they are.
        """
        if len(job_id) > LONGEST_ID:
            return None
        await self._run("cancel", Reply, {"id": job_id})
        return await self.status(job_id)

    async def claim(self, lane: CircuitQueue, owner: str, circuits: frozenset[str] | None) -> Claim | None:
        """Take the job whose turn it is: round robin over trees, ascending batch index in a tree.

        ``circuits`` limits the choice to jobs submitted with one of these circuit names (empty: not known at
        submission); None takes any. Jobs that waited too long fail on the way.
        """
        arguments = {
            "lane": lane.value,
            "owner": owner,
            "call": secrets.token_hex(8),
            "circuits": None if circuits is None else sorted(circuits),
            "longest_body": _LONGEST_BODY,
        }
        while True:
            answer, body = await self._scripts.call("claim", self._with_times(arguments))
            taken = self._scripts.read(answer, Taken)
            self._tell(taken.events)
            if taken.answer == "job":
                try:
                    return records.claim(taken, lane, body)
                except records.RecordMalformed as error:
                    await self.remove(taken.id, str(error))
            if taken.answer == "none":
                return None

    async def heartbeat(self, claims: Sequence[Claim]) -> list[Beat]:
        """Renew leases; one answer per claim, in order.

        Also gives the jobs of dead workers back, so call it regularly even without claims.
        """
        named = [{"id": claim.job_id, "fence": claim.fence} for claim in claims]
        answer = await self._run("heartbeat", Beats, {"claims": named})
        return answer.beats

    async def finish(self, claim: Claim, proof: bytes, duration_ms: int) -> bool:
        """Complete a job; False when the lease was lost, and nothing happened."""
        return (await self._run("finish", Done, {**_named(claim), "duration_ms": duration_ms}, proof)).done

    async def fail(self, claim: Claim, error: str, *, deterministic: bool) -> bool:
        """End a job as failed; False when the lease was lost, and nothing happened.

        ``deterministic`` failures answer equal bodies as long as they are kept; after others an equal body is a
        new job.
        """
        arguments = {**_named(claim), "error": records.bounded(error), "deterministic": deterministic}
        return (await self._run("fail", Done, arguments)).done

    async def requeue(self, claim: Claim, *, count_attempt: bool, reason: str) -> bool:
        """Hand a job back, to be claimed again; False when the lease was lost, and nothing happened.

        A job that used up its attempts fails with the reason instead, one whose cancelling was asked for fails
        as cancelled.
        """
        arguments = {**_named(claim), "count_attempt": count_attempt, "reason": records.bounded(reason)}
        return (await self._run("requeue", Done, arguments)).done

    async def remove(self, job_id: str, reason: str) -> None:
        """Remove a job whose record or result no instance can have written; an equal body is a new job."""
        await self._run("remove", Reply, {"id": job_id})
        self._observe(JobEvent(EventKind.REMOVED, job_id[:LONGEST_ID], CircuitQueue.of(None), detail=reason))

    async def stats(self) -> QueueStats:
        """Real counts, by reads that do not grow with the number of jobs."""
        return records.stats(await self._run("stats", Counts, {}))

    async def sweep(self, kind: SweepKind, role: str = "", owner: str = "") -> int | None:
        """Run one timer's work and return how many jobs it changed; safe when run by several at once.

        With a role and its owner, None and nothing more changes once the role (see ``lead``) is not the owner's.
        """
        name, arguments = {
            SweepKind.STUCK: ("sweep_stuck", {}),
            SweepKind.OLD_REQUESTS: ("sweep_requests", {}),
            SweepKind.FAILED: ("sweep_ended", {"index": "failed", "keep_ms": self._times["failure_ms"]}),
            SweepKind.RESULTS: ("sweep_ended", {"index": "results", "keep_ms": self._times["result_ms"]}),
        }[kind]
        if owner:
            arguments |= {"role": role, "owner": owner}
        total = 0
        while True:
            swept = await self._run(name, Changed, arguments)
            if swept.deposed:
                return None
            if not swept.changed:
                return total
            total += swept.changed

    async def lead(self, role: str, owner: str, seconds: float) -> bool:
        """Take or keep a role that one process of all has, for so long; False while another has it."""
        arguments = {"role": role, "owner": owner, "hold_ms": math.ceil(seconds * 1000), "release": False}
        return (await self._run("lead", Done, arguments)).done

    async def step_down(self, role: str, owner: str) -> None:
        """Give up a role."""
        await self._run("lead", Done, {"role": role, "owner": owner, "release": True})

    async def _run(self, script: str, answer: type[Answer], arguments: dict[str, Any], blob: bytes = b"") -> Answer:
        found = self._scripts.read(await self._scripts.call(script, self._with_times(arguments), blob), answer)
        self._tell(found.events)
        return found

    def _with_times(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {**self._times, "wake_up_function": wake_ups.FUNCTION, **arguments}

    def _tell(self, happenings: Sequence[Happening]) -> None:
        for happening in happenings:
            waited_s = happening.waited / 1000 if happening.waited >= 0 else None
            self._observe(
                JobEvent(
                    happening.kind,
                    happening.id,
                    happening.lane,
                    happening.type,
                    happening.detail,
                    waited_s,
                )
            )


def _named(claim: Claim) -> dict[str, Any]:
    return {"id": claim.job_id, "fence": claim.fence}
