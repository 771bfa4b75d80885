"""Submissions, claims, states and counts of jobs, as callers of the queue see them."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from prover.observability.metrics import CIRCUIT_TYPES
from prover.proving.statement import Statement
from prover.queue.circuit_queues import CircuitQueue, Network

NUMBER: Final = re.compile(r"[0-9]{1,14}", re.ASCII)
"""Fourteen digits of milliseconds end in the year 5138, which dates can still show."""


class JobState(enum.StrEnum):
    """State of a job; it has exactly one at any time."""

    QUEUED = "queued"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"

    @property
    def is_final(self) -> bool:
        """True if the job can no longer change."""
        return self in (self.COMPLETED, self.FAILED)


class Submission(Struct, frozen=True):
    """A request on its way into the queue."""

    circuit_type: str
    """``circuitType`` of the body."""
    circuit: str
    """Catalogue name of the circuit where known, else empty."""
    body: bytes
    tree_id: str = ""
    """``treeId`` of the body; empty is none."""
    batch_index: int = -1
    """``batchIndex`` of the body; negative is none."""
    public_inputs: bytes = b""
    """Public inputs of the body, 32 bytes each; empty if they cannot be read, and then the job gets no proof."""

    network: Network | None = None
    """Network whose queue the job enters."""

    @property
    def queue(self) -> CircuitQueue:
        """Queue that the job enters."""
        return CircuitQueue.of(self.circuit_type, self.network)

    @property
    def statement(self) -> Statement:
        """Statement that a proof of this request proves."""
        return Statement(self.circuit, self.public_inputs)


class SubmissionResult(Struct, frozen=True):
    """Job of a submitted request."""

    job_id: str
    """Random UUID, lower-case with dashes."""
    duplicate: bool
    """True if the job existed before: an equal body is live, finished, or failed by its own fault."""


class JobStatus(Struct, frozen=True):
    """A job without its body. Times are Unix seconds of the Redis server."""

    job_id: str
    state: JobState
    circuit_type: str
    queue: CircuitQueue
    created_at: float
    """Time of the submission."""
    started_at: float | None
    """Time at which its last attempt started; None while waiting."""
    error: str | None
    """Text for the client; None unless failed."""
    failed_at: float | None
    proof: bytes | None
    """Proof JSON; None unless completed."""
    duration_ms: int | None
    """Duration of proving, including the load of the key; None unless completed."""
    attempt: int
    """Started attempts that count: 0 before the first."""
    completed_at: float | None = None
    cancelling: bool = False
    """True if cancellation was requested while the job is being proved."""
    statement: Statement | None = None
    """Statement to prove; None if the record does not agree with the id, and for a request without a statement."""


class Claim(Struct, frozen=True):
    """A job leased to a worker; the lease ends unless ``JobStore.heartbeat`` renews it."""

    job_id: str
    fence: int
    """Fencing token, by which reports of a worker that lost its lease are refused."""
    queue: CircuitQueue
    circuit_type: str
    circuit: str
    body: bytes
    tree_id: str
    batch_index: int
    attempt: int
    """Number of this attempt, from 1."""
    submitted_at: float
    """Unix seconds of the Redis server."""
    waited_s: float = 0.0
    """Seconds since the job last entered the queue, by the Redis server's clock."""


class LeaseState(enum.Enum):
    """State of a claim's lease after a heartbeat."""

    KEPT = "kept"
    """The lease is renewed."""
    LOST = "lost"
    """The job has no worker or another one: stop proving, report nothing."""
    CANCELLED = "cancelled"
    """The lease is renewed; cancellation was requested: stop proving, then ``JobStore.fail``."""


class SweepKind(enum.Enum):
    """Kinds of sweeps, one for each timer of the queue."""

    STUCK = "stuck"
    """Expired leases and waits: jobs of dead workers are requeued, jobs that waited too long fail."""
    OLD_REQUESTS = "old_requests"
    FAILED = "failed"
    RESULTS = "results"


class EventKind(enum.Enum):
    """Effect of this process's call on a job; each event is reported by one process only.

    Removals of final jobs after their retention time are not reported; ``JobStore.sweep`` counts them.
    """

    SUBMITTED = "submitted"
    DEDUPLICATED = "deduplicated"
    REFUSED = "refused"
    """A submission met a full queue."""
    CLAIMED = "claimed"
    COMPLETED = "completed"
    FAILED = "failed"
    """By its worker: ``JobStore.fail``."""
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    """Waited too long."""
    REQUEUED = "requeued"
    """Handed back by its worker."""
    LEASE_LOST = "lease_lost"
    """Its worker sent no heartbeat; the job waits again, or is quarantined, which is reported too."""
    QUARANTINED = "quarantined"
    """Failed because it used up its attempts."""
    REMOVED = "removed"
    """No instance can have written its record or its result."""
    WAKE_UPS_REMOVED = "wake_ups_removed"
    """No instance can have written entries of arq's queues; of no job."""


class JobEvent(Struct, frozen=True):
    """One event of a job, for metrics and logs."""

    kind: EventKind
    job_id: str
    queue: CircuitQueue
    circuit_type: str = ""
    detail: str = ""
    """Reason, if there is one."""
    waited_s: float | None = None
    """For CLAIMED and EXPIRED: seconds in the queue."""
    entries: int = 0
    """For WAKE_UPS_REMOVED: their number."""


class CircuitQueueStats(Struct, frozen=True):
    """Counts of one circuit queue."""

    waiting: int
    """All waiting jobs: ``waiting_without_tree + waiting_with_tree``."""
    waiting_without_tree: int
    trees: int
    """Trees with waiting jobs."""
    processing: int
    stuck: int
    """Running jobs that started more than two minutes ago."""
    oldest_waiting_s: float
    """Age of the longest-waiting job; 0 without one."""
    types: Sequence[str]
    """Circuit types with the numbers of their waiting jobs, alternately, as Redis has them."""
    payload_bytes: int
    """Bodies of waiting and running jobs."""
    wake_ups: int
    """Entries of its arq queue."""

    @property
    def waiting_with_tree(self) -> int:
        """Waiting jobs of trees."""
        return self.waiting - self.waiting_without_tree

    @property
    def waiting_by_type(self) -> dict[str, int]:
        """Waiting jobs by circuit type: the six known types, and ``unknown`` for all others; an absent type has 0."""
        pairs = zip(self.types[::2], self.types[1::2], strict=False)
        return {name: int(number) for name, number in pairs if name in CIRCUIT_TYPES and NUMBER.fullmatch(number)}


class QueueStats(Struct, frozen=True):
    """Counts of all circuit queues at one moment."""

    queues: Mapping[CircuitQueue, CircuitQueueStats]
    failed: int
    """Failed jobs that are kept."""
    results: int
    """Finished jobs that are kept."""
    timestamp: float
    """Unix seconds of the Redis server."""
    sweeper: str = ""
    """Instance that ran the latest sweep of a timer; empty if none did lately."""

    @property
    def total_pending(self) -> int:
        """Waiting jobs of all queues, including those of trees."""
        return sum(queue.waiting for queue in self.queues.values())

    @property
    def total_active(self) -> int:
        """Running jobs of all queues."""
        return sum(queue.processing for queue in self.queues.values())

    @property
    def stuck(self) -> int:
        """Jobs of all queues that have been running for more than two minutes."""
        return sum(queue.stuck for queue in self.queues.values())
