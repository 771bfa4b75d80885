"""The job store: every change of a job is one script in Redis, so a job is always in exactly one state."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prover.queue.connection import RedisConnection
from prover.queue.jobs import Beat, Claim, JobEvent, JobStatus, QueueStats, Submission, Submitted, SweepKind
from prover.queue.lanes import Lane
from prover.queue.limits import QueueLimits


class JobStore:
    """The jobs of all processes that share one Redis.

    Every method raises QueueUnavailable when Redis does not answer. A call that failed may have taken effect; each
    may be repeated safely.
    """

    def __init__(
        self,
        connection: RedisConnection,
        limits: QueueLimits | None = None,
        observe: Callable[[JobEvent], None] = lambda event: None,
    ) -> None:
        """``observe`` is called for everything that calls of this object did to jobs; it must not raise."""
        raise NotImplementedError

    async def ping(self) -> None:
        """Raises QueueUnavailable unless Redis answers."""
        raise NotImplementedError

    async def submit(self, submission: Submission) -> Submitted:
        """Put a request into its lane, or find the job of an equal body.

        Raises QueueFull when the lane is at its bound of jobs or bytes.
        """
        raise NotImplementedError

    async def status(self, job_id: str) -> JobStatus | None:
        """One read of a small hash; None for an id that is unknown or was removed."""
        raise NotImplementedError

    async def wait(self, job_id: str, seconds: float) -> JobStatus | None:
        """Like ``status``, once the state differs from that at the call, is final, or the time is over."""
        raise NotImplementedError

    async def cancel(self, job_id: str) -> JobStatus | None:
        """End a waiting job as failed with ``cancelled``; ask the worker of a running one to stop.

        Returns the status afterwards. Final jobs stay as they are.
        """
        raise NotImplementedError

    async def claim(self, lane: Lane, owner: str, circuits: frozenset[str] | None) -> Claim | None:
        """Take the job whose turn it is: round robin over trees, ascending batch index in a tree.

        ``circuits`` limits the choice to jobs submitted with one of these circuit names (empty: not known at
        submission); None takes any. Jobs that waited too long fail on the way.
        """
        raise NotImplementedError

    async def heartbeat(self, claims: Sequence[Claim]) -> list[Beat]:
        """Renew leases; one answer per claim, in order.

        Also gives the jobs of dead workers back, so call it regularly even without claims.
        """
        raise NotImplementedError

    async def finish(self, claim: Claim, proof: bytes, duration_ms: int) -> bool:
        """Complete a job; False when the lease was lost, and nothing happened."""
        raise NotImplementedError

    async def fail(self, claim: Claim, error: str, *, deterministic: bool) -> bool:
        """End a job as failed; False when the lease was lost, and nothing happened.

        ``deterministic`` failures answer equal bodies as long as they are kept; after others an equal body is a
        new job.
        """
        raise NotImplementedError

    async def requeue(self, claim: Claim, *, count_attempt: bool, reason: str) -> bool:
        """Hand a job back, to be claimed again; False when the lease was lost, and nothing happened.

        A job that used up its attempts fails with the reason instead, one whose cancelling was asked for fails
        as cancelled.
        """
        raise NotImplementedError

    async def stats(self) -> QueueStats:
        """Real counts, by reads that do not grow with the number of jobs."""
        raise NotImplementedError

    async def sweep(self, kind: SweepKind) -> int:
        """Run one timer's work and return how many jobs it changed; safe when run by several at once."""
        raise NotImplementedError

    async def lead(self, role: str, owner: str, seconds: float) -> bool:
        """Take or keep a role that one process of all has, for so long; False while another has it."""
        raise NotImplementedError

    async def step_down(self, role: str, owner: str) -> None:
        """Give up a role."""
        raise NotImplementedError
