"""What goes into the queue and what comes out of it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from prover.proving.statement import Statement
from prover.queue.circuit_queues import CircuitQueue


class JobState(enum.StrEnum):
    """Where a job is; exactly one at any time."""

    QUEUED = "queued"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"

    @property
    def is_final(self) -> bool:
        """Whether the job will not change any more."""
        return self in (self.COMPLETED, self.FAILED)


@dataclass(frozen=True)
class Submission:
    """A request on its way into the queue."""

    circuit_type: str
    """``circuitType`` of the body; its lane is ``CircuitQueue.of(circuit_type)``."""
    circuit: str
    """Catalogue name of the circuit where known, else empty."""
    body: bytes
    tree_id: str = ""
    """``treeId`` of the body; empty is none."""
    batch_index: int = -1
    """``batchIndex`` of the body; negative is none."""
    public_inputs: bytes = b""
    """Public inputs of the body, 32 bytes each; empty where they cannot be read. Its job has no proof then."""

    @property
    def statement(self) -> Statement:
        """What a proof of this request proves."""
        return Statement(self.circuit, self.public_inputs)


@dataclass(frozen=True)
class Submitted:
    """Where a request went."""

    job_id: str
    """Random UUID, lower-case with dashes."""
    duplicate: bool
    """Whether the job was there before: an equal body is live, finished, or failed by its own fault."""


@dataclass(frozen=True)
class JobStatus:
    """A job without its body. Times are Unix seconds of the Redis server."""

    job_id: str
    state: JobState
    circuit_type: str
    lane: CircuitQueue
    created_at: float
    """When the job was submitted."""
    started_at: float | None
    """When its last attempt was begun; None while waiting."""
    error: str | None
    """Text for the client; None unless failed."""
    failed_at: float | None
    proof: bytes | None
    """Proof JSON; None unless completed."""
    duration_ms: int | None
    """What proving took, loading the key included; None unless completed."""
    attempt: int
    """Attempts begun that count: 0 before the first."""
    completed_at: float | None = None
    cancelling: bool = False
    """Whether somebody asked to cancel the job while it is being proved."""
    statement: Statement | None = None
    """What the proof must prove; None where the record does not agree with the id, and for a request without one."""


@dataclass(frozen=True)
class Claim:
    """A job that a worker took: a lease that ends unless ``JobStore.heartbeat`` renews it."""

    job_id: str
    fence: int
    """Fencing token: what a worker says after its lease was lost is refused by it."""
    lane: CircuitQueue
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


class Beat(enum.Enum):
    """What a heartbeat learns about a claim."""

    KEPT = "kept"
    """The lease is renewed."""
    LOST = "lost"
    """The job belongs to nobody or to another worker: stop proving, report nothing."""
    CANCELLED = "cancelled"
    """The lease is renewed; somebody wants the job to end: stop proving, then ``JobStore.fail``."""


class SweepKind(enum.Enum):
    """The timers of the specification."""

    STUCK = "stuck"
    """Ends of leases and of waiting: jobs of dead workers go back, jobs that waited too long fail."""
    OLD_REQUESTS = "old_requests"
    FAILED = "failed"
    RESULTS = "results"


class EventKind(enum.Enum):
    """What happened to a job by a call of this process; each happening is reported by one process only.

    Final jobs that are removed after their time are not reported; ``JobStore.sweep`` counts them.
    """

    SUBMITTED = "submitted"
    DEDUPLICATED = "deduplicated"
    REFUSED = "refused"
    """A submission found its lane full."""
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
    """Its worker gave no sign of life; the job waits again, or is quarantined, which is reported too."""
    QUARANTINED = "quarantined"
    """Failed because it used up its attempts."""
    REMOVED = "removed"
    """Its record or its result is one that no instance can have written."""


@dataclass(frozen=True)
class JobEvent:
    """One happening, for metrics and logs."""

    kind: EventKind
    job_id: str
    lane: CircuitQueue
    circuit_type: str = ""
    detail: str = ""
    """Why, where there is a reason to tell."""
    waited_s: float | None = None
    """For CLAIMED and EXPIRED: seconds in the queue."""


@dataclass(frozen=True)
class CircuitQueueStats:
    """Counts of one lane."""

    waiting: int
    """All waiting jobs: ``waiting_without_tree + waiting_with_tree``."""
    waiting_without_tree: int
    waiting_with_tree: int
    trees: int
    """Trees with waiting jobs."""
    processing: int
    stuck: int
    """Running jobs that were begun more than two minutes ago."""
    oldest_waiting_s: float
    """Age of the longest-waiting job; 0 without one."""
    waiting_by_type: Mapping[str, int]
    """Waiting jobs by circuit type: the six known ones, and ``unknown`` for all others; absent is 0."""
    payload_bytes: int
    """Bodies of waiting and running jobs."""
    wake_ups: int
    """Entries of the lane's arq queue."""


@dataclass(frozen=True)
class QueueStats:
    """Counts of the whole queue at one moment."""

    lanes: Mapping[CircuitQueue, CircuitQueueStats]
    failed: int
    """Failed jobs that are kept."""
    results: int
    """Finished jobs that are kept."""
    timestamp: float
    """Unix seconds of the Redis server."""

    @property
    def total_pending(self) -> int:
        """Waiting jobs of all lanes, those of trees included."""
        return sum(lane.waiting for lane in self.lanes.values())

    @property
    def total_active(self) -> int:
        """Running jobs of all lanes."""
        return sum(lane.processing for lane in self.lanes.values())

    @property
    def stuck(self) -> int:
        """Jobs of all lanes that have been running for more than two minutes."""
        return sum(lane.stuck for lane in self.lanes.values())
