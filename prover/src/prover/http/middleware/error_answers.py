"""Answers to requests that fail."""

from aiohttp import web
from aiohttp.typedefs import Handler

from prover.errors import (
    KeyUnavailable,
    ProofTimedOut,
    ProverError,
    QueueFull,
    QueueUnavailable,
    RateLimited,
    ShuttingDown,
    TryAgainLater,
)
from prover.http.request_fields import CIRCUIT_TYPE, EXTRA_HEADERS, FACTS, REQUEST_ID
from prover.http.server.responses import method_not_allowed, page_not_found, problem_response
from prover.http.state import STATE
from prover.observability.metrics import UNKNOWN_CIRCUIT
from shared.process.logs import get_logger
from shared.requests.circuit_id import CircuitKind

_log = get_logger(__name__)

_KEY_RETRY_S = 60


@web.middleware
async def error_answers(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn every failure into an answer."""
    try:
        return await handler(request)
    except web.HTTPNotFound:
        return page_not_found()
    except web.HTTPMethodNotAllowed:
        return method_not_allowed()
    except ProverError as raised:
        error = raised
    except Exception:  # noqa: BLE001 - counted, logged with its traceback, answered
        _log.exception("unexpected_error")
        request.app[STATE].metrics.panics.labels(request.get(CIRCUIT_TYPE, UNKNOWN_CIRCUIT)).inc()
        error = ProverError()
    request[FACTS] = {
        "circuit_type": request.get(CIRCUIT_TYPE, UNKNOWN_CIRCUIT),
        "code": error.code,
        "error": error.detail,
    }
    if isinstance(error, ProofTimedOut) and error.remedy:
        request[FACTS]["remedy"] = error.remedy
    response = problem_response(error, request[REQUEST_ID], _retry_after_s(request, error))
    response.headers.update(request.get(EXTRA_HEADERS, {}))
    return response


def _retry_after_s(request: web.Request, error: ProverError) -> int:
    if isinstance(error, RateLimited | QueueFull):
        return error.retry_after_s
    if isinstance(error, TryAgainLater) and not isinstance(error, ShuttingDown | QueueUnavailable):
        kind = request.get(CIRCUIT_TYPE)
        return request.app[STATE].admission.retry_after_s(CircuitKind(kind) if kind else None)
    return _KEY_RETRY_S if isinstance(error, KeyUnavailable) else 1
