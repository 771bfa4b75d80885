"""``POST /prove``: a proof; with a queue, a job for batches and for requests with X-Async."""

from collections.abc import Callable
from functools import partial

from aiohttp import web

from prover.errors import CircuitDisabled, CircuitUnknown, ProofTimedOut, QueueUnavailable, ShuttingDown
from prover.http.access.clients import client_name, idempotency_scope
from prover.http.request_fields import EXTRA_HEADERS, FACTS
from prover.http.requests import idempotency
from prover.http.requests.body import ExaminedBody, examine, read_body
from prover.http.requests.proofs_in_progress import ProofInProgress, Work
from prover.http.routes.request_count import RequestCount, circuit_type, counted_request, note_input
from prover.http.routes.submit import network_of, submission_of, submit, unknown_submission
from prover.http.state import STATE, ServerState
from prover.kernel.cancellation import CancelFlag
from prover.keys.catalogue.circuits import PUBLISHED_CIRCUITS
from prover.proving.proof_making import Proof, device_facts
from prover.proving.request import read_task
from prover.proving.service import OnPhase
from prover.queue.circuit_queues import Network
from prover.queue.jobs import Submission
from shared.process.logs import get_logger
from shared.requests.circuit_id import CircuitKind
from shared.requests.proof_wire import Envelope

_log = get_logger(__name__)

_TRUE = "true"
_HEAVY = (
    "WARNING: {kind} is a heavy operation that should be processed asynchronously. Consider using X-Async: true header."
)


async def prove(request: web.Request) -> web.Response:
    """Answer 200 with a verified proof, or 202 with a job; every failure is a problem (see prover.errors)."""
    state = request.app[STATE]
    with counted_request(request) as count, state.bodies.lease(client_name(request)) as lease:
        body = await read_body(request, state.settings.http, lease)
        try:
            examined = await examine(body, is_stored=state.queue is not None)
        except CircuitUnknown as unknown:
            job = await _job(request, count, None, partial(unknown_submission, unknown, body.text))
            if job is None:
                raise
            return job
        note_input(request, examined.envelope.kind, len(body.text))
        job = await _job(request, count, examined.envelope.kind, partial(submission_of, examined))
        if job is not None:
            return job
        answer = await _answer(request, state, examined)
        count.outcome = "ok"
    state.metrics.proof_bytes.labels(circuit_type(request)).observe(len(answer))
    return web.Response(body=answer, content_type="application/json", headers=request.get(EXTRA_HEADERS, {}))


async def _job(
    request: web.Request,
    count: RequestCount,
    kind: CircuitKind | None,
    submission: Callable[[Network | None], Submission],
) -> web.Response | None:
    """Queue a request and answer 202 with its job; None if it must be proved directly.

    With a queue, batches are always queued, and others on request. When Redis is unavailable, batches raise
    QueueUnavailable and others are proved directly. Raises QueueFull and ShuttingDown.
    """
    queue, is_batch = request.app[STATE].queue, kind is not None and kind.is_batch
    if queue is None or not (is_batch or _requests_job(request)):
        return None
    try:
        return await submit(request, count, queue, submission(network_of(request)))
    except QueueUnavailable as error:
        if is_batch:
            raise
        _log.warning("proved_without_queue", detail=error.detail, circuit_type=circuit_type(request))
        return None


def _requests_job(request: web.Request) -> bool:
    """Return True for a request with X-Async or ``async`` exactly ``true``, which overrides X-Sync."""
    return _TRUE in (request.headers.get("X-Async"), request.query.get("async"))


async def _answer(request: web.Request, state: ServerState, examined: ExaminedBody) -> bytes:
    kind = examined.envelope.kind.value
    if examined.envelope.kind.is_batch:
        request[EXTRA_HEADERS] = {"X-Warning": _HEAVY.format(kind=kind)}
    with state.answers.claim(_idempotency_name(request), examined.digest) as claim:
        if claim.answer is not None:
            state.metrics.shared_proofs.labels("replayed").inc()
            request[EXTRA_HEADERS] = {**request.get(EXTRA_HEADERS, {}), idempotency.REPLAYED_HEADER: "true"}
            request[FACTS] = {"circuit_type": kind, "replayed": True}
            return claim.answer
        proof, joined = await _proof(state, examined)
        claim.keep(proof.body)
    request[FACTS] = _facts(proof) | ({"joined": True} if joined else {})
    return proof.body


async def _proof(state: ServerState, examined: ExaminedBody) -> tuple[Proof, bool]:
    """Join the proof in progress of this body or begin it; return it, and True if another request began it."""
    if state.draining:
        raise ShuttingDown
    in_progress: ProofInProgress | None = state.proofs_in_progress.find(examined.digest)
    joined = in_progress is not None
    if in_progress is None:
        in_progress = state.proofs_in_progress.begin(
            examined.digest,
            _work(state, examined.envelope),
            is_key_ready=state.service.is_ready(examined.envelope.circuit),
        )
    else:
        state.metrics.shared_proofs.labels("joined").inc()
    proving = state.settings.proving
    is_batch = examined.envelope.kind.is_batch
    with in_progress.attached_client():
        try:
            deadline_s = proving.batch_deadline_s if is_batch else proving.merkle_deadline_s
            return await in_progress.proof(deadline_s, proving.key_wait_s), joined
        except ProofTimedOut as error:
            error.remedy = f"raise PROVER_PROVING__{'BATCH' if is_batch else 'MERKLE'}_DEADLINE_S, or add CPUs"
            raise


def _work(state: ServerState, envelope: Envelope) -> Work:
    """Return the work of the thread of a request."""

    def work(cancel: CancelFlag, on_phase: OnPhase) -> Proof:
        task = read_task(envelope, PUBLISHED_CIRCUITS)
        if not state.selection.includes(task.circuit):
            raise CircuitDisabled(
                f"{task.circuit.name} is disabled on this instance; enable it with --run-mode or --circuit"
            )
        cancel.check()
        return state.service.prove(task, cancel, on_phase)

    return work


def _idempotency_name(request: web.Request) -> idempotency.Name | None:
    key = idempotency.read_key(request.headers.get(idempotency.HEADER))
    return None if key is None else (idempotency_scope(request), key)


def _facts(proof: Proof) -> dict[str, object]:
    timings = proof.timings
    return {
        "circuit": proof.circuit.name,
        **device_facts(proof),
        "key_ms": round(timings.key_s * 1000, 1),
        "wait_ms": round(timings.wait_s * 1000, 1),
        "prove_ms": round(timings.prove_s * 1000, 1),
        "verify_ms": round(timings.verify_s * 1000, 1),
    }
