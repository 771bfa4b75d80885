"""Metrics of proof requests, proved directly or queued."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web
from msgspec import Struct

from prover.errors import Cancelled, CircuitDisabled, ProofTimedOut, ProverError, TryAgainLater
from prover.http.request_fields import CIRCUIT_TYPE
from prover.http.state import STATE
from prover.observability.metrics import UNKNOWN_CIRCUIT
from shared.requests.circuit_id import CircuitKind


class RequestCount(Struct):
    """Outcome of one request, which its handler sets when it has an answer."""

    outcome: str = "error"


@contextmanager
def counted_request(request: web.Request) -> Iterator[RequestCount]:
    """Count the request that is handled in the block, by circuit and outcome."""
    metrics = request.app[STATE].metrics
    count = RequestCount()
    try:
        yield count
    except asyncio.CancelledError:
        count.outcome = "timeout"
        raise
    except ProverError as error:
        count.outcome = _outcome(error)
        metrics.generation_errors.labels(circuit_type(request), error.code).inc()
        if count.outcome == "rejected":
            metrics.rejected.labels(error.code).inc()
        raise
    finally:
        metrics.requests.labels(circuit_type(request), count.outcome).inc()


def note_input(request: web.Request, kind: CircuitKind | None, size: int) -> None:
    """Record the circuit family of a request, None if unknown, and the size of its body in bytes."""
    if kind is not None:
        request[CIRCUIT_TYPE] = kind.value
    request.app[STATE].metrics.input_bytes.labels(circuit_type(request)).observe(size)


def circuit_type(request: web.Request) -> str:
    """Return the circuit family of a request as a metric label."""
    kind: str = request.get(CIRCUIT_TYPE, UNKNOWN_CIRCUIT)
    return kind


def _outcome(error: ProverError) -> str:
    if isinstance(error, ProofTimedOut | Cancelled):
        return "timeout"
    if isinstance(error, TryAgainLater | CircuitDisabled):
        return "rejected"
    return "client_error" if error.status < 500 else "error"
