"""Answers about jobs and the queue in the reference's format: members in alphabetical order, a final line break."""

from datetime import UTC, datetime
from typing import Literal

import msgspec
from aiohttp import web

from prover.http.server.retry_words import without_retry_words
from prover.queue.jobs import JobState, JobStatus
from shared.requests.proof_wire import ProofJson, decode_proof

_MESSAGES = {
    JobState.QUEUED: "Job is queued and waiting to be processed",
    JobState.PROCESSING: "Job is currently being processed",
}


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """Base of the answers about jobs; members that equal their default are omitted."""


class QueuedJob(Answer, frozen=True, kw_only=True):
    """The job of a request: a new one (``queued``), or that of an earlier equal body (``already_queued``)."""

    circuit_type: str
    deduplicated: bool = False
    estimated_time: str = ""
    job_id: str
    message: str
    queue: str
    status: Literal["queued", "already_queued"]
    status_url: str = ""


class JobResult(msgspec.Struct, frozen=True):
    """The proof of a completed job, and its duration in milliseconds, with the time to load the key."""

    proof: ProofJson
    proof_duration_ms: int


class Job(Answer, frozen=True, kw_only=True):
    """State of a job. Times are RFC 3339; ``created_at`` of a running job is its start, as in the reference."""

    circuit_type: str
    created_at: str
    error: str = ""
    failed_at: str = ""
    job_id: str
    message: str = ""
    result: JobResult | None = None
    status: Literal["queued", "processing", "completed", "failed"]


class QueueCounts(Answer, frozen=True, kw_only=True):
    """Numbers of jobs. A queue counts waiting jobs without a tree, ``<queue>_tree_subqueues`` those with one."""

    queues: dict[str, int]
    timestamp: int
    total_active: int
    total_failed: int
    total_pending: int


class QueueHealth(Answer, frozen=True, kw_only=True):
    """Numbers of jobs and a verdict; ``stuck_jobs`` have been running for more than two minutes."""

    queue_lengths: dict[str, int]
    status: Literal["healthy", "degraded", "unhealthy"]
    stuck_jobs: int
    timestamp: int
    total_failed: int
    total_pending: int
    total_processing: int
    total_results: int


class SweepOutcome(Answer, frozen=True, kw_only=True):
    """Outcome of one sweep."""

    error: str = ""
    success: bool


class CleanupOutcome(Answer, frozen=True, kw_only=True):
    """Outcomes of the four sweeps."""

    old_failed_cleanup: SweepOutcome
    old_requests_cleanup: SweepOutcome
    old_result_keys_cleanup: SweepOutcome
    stuck_jobs_cleanup: SweepOutcome
    timestamp: int


def respond(answer: Answer, status: int = web.HTTPOk.status_code) -> web.Response:
    """Return the response with an answer."""
    body = msgspec.json.encode(answer, order="sorted") + b"\n"
    return web.Response(status=status, body=body, content_type="application/json")


def job_response(job: JobStatus) -> web.Response:
    """Return the state of a job: 200 if it is completed, else 202, even if it failed, as existing clients expect."""
    error = without_retry_words(job.error or "")
    answer = Job(
        circuit_type=job.circuit_type,
        created_at=_rfc3339(_created_at(job)),
        error=error,
        failed_at=_rfc3339(job.failed_at) if job.failed_at is not None else "",
        job_id=job.job_id,
        message=f"Job processing failed: {error}" if job.state is JobState.FAILED else _MESSAGES.get(job.state, ""),
        result=None if job.proof is None else JobResult(decode_proof(job.proof), job.duration_ms or 0),
        status=job.state.value,
    )
    return respond(answer, 200 if job.state is JobState.COMPLETED else 202)


def _created_at(job: JobStatus) -> float:
    if job.state is JobState.PROCESSING and job.started_at is not None:
        return job.started_at
    return job.created_at


def _rfc3339(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
