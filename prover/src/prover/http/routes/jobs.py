"""``/prove/status``: the state of a job, the wait for its change, and its cancellation."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from aiohttp import web

from prover.errors import InvalidJobId, JobNotFound, KeyUnavailable, MalformedRequest
from prover.http.request_fields import FACTS
from prover.http.routes.queue_answers import job_response
from prover.http.state import STATE, queue_of
from prover.proving.result_check import Verdict, check_result
from prover.queue.jobs import JobStatus

if TYPE_CHECKING:
    from prover.queue.store import JobStore

LONGEST_WAIT_S = 60.0
"""Maximum of ``wait``; a longer one is cut to it, and the client repeats the request."""

_CANONICAL = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_DASHED = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_UUID = re.compile(rf"(?:urn:uuid:)?{_DASHED}|\{{{_DASHED}\}}|[0-9a-f]{{32}}", re.ASCII | re.IGNORECASE)
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", re.ASCII)


async def status(request: web.Request) -> web.Response:
    """Answer with the state of a job; with ``wait``, when it changes or after that many seconds."""
    queue, job_id, seconds = queue_of(request), _job_id(request), _wait_s(request)
    if not seconds:
        return await _answer(request, job_id, await queue.status(job_id))
    return await _answer(request, job_id, await _changed(queue, job_id, seconds, request.app[STATE].stopping))


async def cancel(request: web.Request) -> web.Response:
    """Cancel a job and answer with its state; one that has ended, or that others also wait for, does not change."""
    queue, job_id = queue_of(request), _job_id(request)
    return await _answer(request, job_id, await queue.cancel(job_id))


async def _changed(queue: JobStore, job_id: str, seconds: float, end: asyncio.Event) -> JobStatus | None:
    """Wait for a change of the job, or for the shutdown of this server."""
    waiting = asyncio.ensure_future(queue.wait(job_id, seconds))
    stopping = asyncio.ensure_future(end.wait())
    try:
        await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            return waiting.result()
        return await queue.status(job_id)
    finally:
        waiting.cancel()
        stopping.cancel()


def _job_id(request: web.Request) -> str:
    """Return the id. Other spellings of a UUID are valid but never found, as in the reference."""
    given = request.query.get("job_id", "")
    if not given:
        raise MalformedRequest("job_id parameter required")
    if not _UUID.fullmatch(given):
        raise InvalidJobId
    if not _CANONICAL.fullmatch(given):
        raise _missing(given)
    return given


def _wait_s(request: web.Request) -> float:
    given = request.query.get("wait", "0")
    if not _SECONDS.fullmatch(given):
        raise MalformedRequest(f"wait must be a number of seconds, at most {LONGEST_WAIT_S:g} of which count")
    return min(float(given), LONGEST_WAIT_S)


async def _answer(request: web.Request, job_id: str, job: JobStatus | None) -> web.Response:
    """Answer with a job. Raises JobNotFound, also for an invalid result, so that the client sends the request again."""
    if job is None or not await _result_holds(request, job):
        raise _missing(job_id)
    facts: dict[str, object] = {"circuit_type": job.circuit_type, "job_id": job_id, "state": job.state.value}
    request[FACTS] = facts
    return job_response(job)


async def _result_holds(request: web.Request, job: JobStatus) -> bool:
    """Verify the proof of a finished job, and remove a job with an invalid one.

    Raises KeyUnavailable, and keeps the job, if this instance cannot verify it.
    """
    if job.proof is None:
        return True
    state = request.app[STATE]
    verdict, reason = await asyncio.to_thread(check_result, state.keys.verifying, job.statement, job.proof)
    state.metrics.stored_results.labels(verdict.value).inc()
    if verdict is Verdict.UNVERIFIED:
        raise KeyUnavailable(f"the proof is ready, but {reason}")
    if verdict is Verdict.REJECTED:
        await queue_of(request).remove(job.job_id, f"its result is not a proof of its request: {reason}")
    return verdict is Verdict.VERIFIED


def _missing(job_id: str) -> JobNotFound:
    return JobNotFound(f"Job with ID {job_id} not found. It may have expired or never existed.")
