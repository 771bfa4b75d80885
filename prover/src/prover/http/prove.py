"""``POST /prove``: one request, one proof, synchronously."""

import asyncio
from functools import partial

from aiohttp import web

from prover.errors import (
    BodyTooLarge,
    BodyTooSlow,
    Cancelled,
    MalformedRequest,
    ProofTimedOut,
    ProverError,
    ShuttingDown,
    TryAgainLater,
)
from prover.http.state import CIRCUIT_TYPE, EXTRA_HEADERS, FACTS, STATE, ServerState
from prover.kernel.cancellation import CancelFlag
from prover.keys.catalogue import PUBLISHED_CIRCUITS
from prover.observability.metrics import UNKNOWN_CIRCUIT
from prover.proving.request import read_envelope, read_task
from prover.proving.service import Proof
from shared.proof_wire import Envelope

_HEAVY = (
    "WARNING: {kind} is a heavy operation that should be processed asynchronously. Consider using X-Async: true header."
)


async def prove(request: web.Request) -> web.Response:
    """Answer 200 with a verified proof; every failure is a problem (see prover.errors)."""
    state = request.app[STATE]
    outcome = "error"
    try:
        body = await _read_body(request, state)
        envelope = read_envelope(body)
        kind = envelope.kind.value
        request[CIRCUIT_TYPE] = kind
        state.metrics.input_bytes.labels(kind).observe(len(body))
        if envelope.kind.is_batch:
            request[EXTRA_HEADERS] = {"X-Warning": _HEAVY.format(kind=kind)}
        proof = await _prove_within_deadline(state, body, envelope)
        outcome = "ok"
    except asyncio.CancelledError:
        outcome = "timeout"
        raise
    except ProverError as error:
        outcome = _outcome(error)
        state.metrics.generation_errors.labels(_circuit_type(request), error.code).inc()
        raise
    finally:
        state.metrics.requests.labels(_circuit_type(request), outcome).inc()
    state.metrics.proof_bytes.labels(kind).observe(len(proof.body))
    request[FACTS] = _facts(proof)
    return web.Response(body=proof.body, content_type="application/json", headers=request.get(EXTRA_HEADERS, {}))


async def _read_body(request: web.Request, state: ServerState) -> bytes:
    limits = state.settings.http
    if request.content_length is not None and request.content_length > limits.body_limit_bytes:
        raise BodyTooLarge(f"the request body is larger than {limits.body_limit_bytes} bytes")
    try:
        async with asyncio.timeout(limits.body_timeout_s):
            return await request.read()
    except TimeoutError as error:
        raise BodyTooSlow from error
    except web.RequestPayloadError as error:
        raise MalformedRequest("the request body cannot be read as its headers announce") from error


async def _prove_within_deadline(state: ServerState, body: bytes, envelope: Envelope) -> Proof:
    """Run the proof in a thread. When the time is up or the client leaves, the kernel is told to stop."""
    if state.draining:
        raise ShuttingDown
    if len(state.running) >= state.thread_limit:
        raise TryAgainLater(f"{len(state.running)} requests are in progress already; try again later")
    proving = state.settings.proving
    deadline_s = proving.batch_deadline_s if envelope.kind.is_batch else proving.merkle_deadline_s
    cancel = CancelFlag()
    state.running.add(cancel)
    future = asyncio.get_running_loop().run_in_executor(
        state.executor, partial(_prove_blocking, state, body, envelope, cancel)
    )
    # The thread may outlive this handler; its place is free only when it returns.
    future.add_done_callback(lambda done: _forget(state, cancel, done))
    try:
        await asyncio.wait({future}, timeout=deadline_s)
        if not future.done():
            raise ProofTimedOut(f"Proof generation timed out after {deadline_s:g} seconds.")
        return future.result()
    except Cancelled as error:
        raise ShuttingDown from error  # nobody else raises the flag while we wait
    finally:
        cancel.raise_flag()


def _prove_blocking(state: ServerState, body: bytes, envelope: Envelope, cancel: CancelFlag) -> Proof:
    task = read_task(body, envelope, PUBLISHED_CIRCUITS)
    cancel.check()
    return state.service.prove(task, cancel)


def _forget(state: ServerState, cancel: CancelFlag, future: asyncio.Future[Proof]) -> None:
    state.leave(cancel)
    if not future.cancelled():
        future.exception()  # seen, even when the handler has left


def _outcome(error: ProverError) -> str:
    if isinstance(error, ProofTimedOut | Cancelled):
        return "timeout"
    if isinstance(error, TryAgainLater):
        return "rejected"
    return "client_error" if error.status < 500 else "error"


def _circuit_type(request: web.Request) -> str:
    circuit_type: str = request.get(CIRCUIT_TYPE, UNKNOWN_CIRCUIT)
    return circuit_type


def _facts(proof: Proof) -> dict[str, object]:
    timings = proof.timings
    return {
        "circuit": proof.circuit.name,
        "key_ms": round(timings.key_s * 1000, 1),
        "wait_ms": round(timings.wait_s * 1000, 1),
        "prove_ms": round(timings.prove_s * 1000, 1),
        "verify_ms": round(timings.verify_s * 1000, 1),
    }
