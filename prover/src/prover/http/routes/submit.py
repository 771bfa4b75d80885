"""Requests that become jobs: ``/queue/add``, the submission to the queue, and the answer with the job."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from aiohttp import web

from prover.errors import CircuitUnknown, MalformedRequest, ShuttingDown
from prover.http.access.clients import client_name
from prover.http.request_fields import FACTS
from prover.http.requests.body import ExaminedBody, examine, read_body
from prover.http.routes.queue_answers import QueuedJob, respond
from prover.http.routes.request_count import RequestCount, counted_request, note_input
from prover.http.state import STATE, queue_of
from prover.keys.catalogue.circuits import PUBLISHED_CIRCUITS
from prover.proving.request import read_public_inputs
from prover.queue.circuit_queues import Network
from prover.queue.jobs import Submission, SubmissionResult
from shared.requests.circuit_id import CircuitKind

if TYPE_CHECKING:
    from prover.queue.store import JobStore

NETWORK_HEADER = "X-Light-Network"

_BLANKS = " \t"
_ACCEPTED = web.HTTPAccepted.status_code
_BATCHES = frozenset(kind.value for kind in CircuitKind if kind.is_batch)
_BATCH_TIME, _QUICK_TIME = "10-30 seconds", "1-3 seconds"
_LARGEST_UNKNOWN_BYTES = 1 << 16
_LARGEST_INDEX = 2**53 - 1
"""Maximum that a Redis score, a floating-point number, represents exactly; no tree has so many batches."""


async def add(request: web.Request) -> web.Response:
    """``POST /queue/add``: answer 202 with a job, whatever the circuit; never with a proof."""
    state = request.app[STATE]
    with counted_request(request) as count, state.bodies.lease(client_name(request)) as lease:
        body = await read_body(request, state.settings.http, lease)
        try:
            examined = await examine(body)
        except CircuitUnknown as unknown:
            submission = unknown_submission(unknown, body.text, network_of(request))
            note_input(request, None, len(body.text))
        else:
            submission = submission_of(examined, network_of(request))
            note_input(request, examined.envelope.kind, len(body.text))
        submitted = await _submit(request, count, queue_of(request), submission)
    return _answer(submission, submitted)


async def submit(request: web.Request, count: RequestCount, queue: JobStore, submission: Submission) -> web.Response:
    """Queue a request of ``/prove`` and answer 202 with its job. Raises QueueUnavailable, QueueFull, ShuttingDown."""
    return _answer(submission, await _submit(request, count, queue, submission), with_status_url=True)


def network_of(request: web.Request) -> Network | None:
    """Return the network that a request for the queue names; raises MalformedRequest."""
    given = request.headers.get(NETWORK_HEADER)
    if given is None and not request.app[STATE].settings.queue.require_network:
        return None
    try:
        return Network((given or "").strip(_BLANKS).lower())
    except ValueError:
        known = " or ".join(Network)
        raise MalformedRequest(f"the header {NETWORK_HEADER} must be {known} in requests for the queue") from None


def submission_of(examined: ExaminedBody, network: Network | None) -> Submission:
    """Return the submission of a request; of a large body, only the members that its circuit needs."""
    envelope, circuit = examined.envelope, examined.envelope.circuit
    # Only a published circuit bounds the number of inputs, and only its jobs have results that are checked with them.
    published = circuit in PUBLISHED_CIRCUITS
    return Submission(
        circuit_type=envelope.kind.value,
        circuit=circuit.name if published else "",
        body=bytes(examined.text),
        tree_id=envelope.tree_id or "",
        batch_index=max(-1, min(envelope.batch_index, _LARGEST_INDEX)),
        public_inputs=(published and read_public_inputs(envelope)) or b"",
        network=network,
    )


def unknown_submission(unknown: CircuitUnknown, body: bytes | bytearray, network: Network | None) -> Submission:
    """Return the submission of a request for an unknown circuit, whose job will fail.

    Raises CircuitUnknown for a large body, to save memory of the queue.
    """
    if len(body) > _LARGEST_UNKNOWN_BYTES:
        raise unknown
    return Submission(circuit_type=unknown.circuit_type, circuit="", body=bytes(body), network=network)


async def _submit(
    request: web.Request, count: RequestCount, queue: JobStore, submission: Submission
) -> SubmissionResult:
    if request.app[STATE].draining:
        raise ShuttingDown
    submitted = await queue.submit(submission)
    count.outcome = "queued"
    request[FACTS] = {
        "circuit_type": submission.circuit_type,
        "job_id": submitted.job_id,
        "duplicate": submitted.duplicate,
    }
    return submitted


def _answer(submission: Submission, submitted: SubmissionResult, *, with_status_url: bool = False) -> web.Response:
    kind, queue = submission.circuit_type, submission.queue.queue_name
    job = partial(QueuedJob, circuit_type=kind, job_id=submitted.job_id, queue=queue)
    if submitted.duplicate:
        message = f"An equal request is in {queue} or was answered; the job is the same."
        answer = job(deduplicated=True, message=message, status="already_queued")
    elif with_status_url:
        answer = job(
            estimated_time=_BATCH_TIME if kind in _BATCHES else _QUICK_TIME,
            message=f"Proof generation queued for {kind} circuit. Use status_url to check progress.",
            status="queued",
            status_url=f"/prove/status?job_id={submitted.job_id}",
        )
    else:
        answer = job(message=f"Job queued in {queue}", status="queued")
    return respond(answer, _ACCEPTED)
