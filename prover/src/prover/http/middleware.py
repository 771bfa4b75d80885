"""What surrounds every handler, outermost first: ids and log line, cross-origin headers, error answers, API key."""

import time
from http import HTTPStatus

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
from prover.http.responses import method_not_allowed, page_not_found, problem_response
from prover.http.state import API_KEY_NAME, CIRCUIT_TYPE, EXTRA_HEADERS, FACTS, REQUEST_ID, STATE
from prover.http.tracing import REQUEST_ID_HEADER, TRACE_HEADER, request_id, trace_fields
from prover.observability.metrics import UNKNOWN_CIRCUIT
from shared.circuit_id import CircuitKind
from shared.logs import bind, get_logger

_log = get_logger(__name__)

_KEY_RETRY_S = 60
_QUIET_PATHS = frozenset({"/", "/health"})


@web.middleware
async def canonical_line(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Give the request its ids and write one line about it when it is over."""
    identity = request[REQUEST_ID] = request_id(request.headers.get(REQUEST_ID_HEADER, ""))
    started = time.perf_counter()
    with bind(request_id=identity, **trace_fields(request.headers.get(TRACE_HEADER, ""))):
        status = 0
        try:
            response = await handler(request)
            status = response.status
        finally:
            _write_line(request, status, time.perf_counter() - started)
            request.app[STATE].metrics.responses.labels(str(status)).inc()
        response.headers[REQUEST_ID_HEADER] = identity
        return response


def _write_line(request: web.Request, status: int, duration_s: float) -> None:
    """Write the line of a request; status 0 means that the client left before there was an answer."""
    facts = request.get(FACTS, {})
    is_quiet = request.path in _QUIET_PATHS and status < HTTPStatus.INTERNAL_SERVER_ERROR
    suppressed: dict[str, int] | None = {}
    if not is_quiet and _is_refusal(status):
        reason = str(facts.get("code", status)) if status else "client_left"
        suppressed = request.app[STATE].log_throttle.admit(reason)
    if suppressed is None:
        return
    (_log.debug if is_quiet else _log.info)(
        "request_finished" if status else "client_left",
        method=request.method,
        path=request.path,
        status=status,
        duration_ms=round(duration_s * 1000, 1),
        **({"api_key": request[API_KEY_NAME]} if API_KEY_NAME in request else {}),
        **facts,
        **suppressed,
    )


def _is_refusal(status: int) -> bool:
    """Return True for a status that any client can cause as often as it likes."""
    return not status or status == HTTPStatus.SERVICE_UNAVAILABLE or 400 <= status < 500


@web.middleware
async def error_answers(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn every failure into the answer that clients expect."""
    try:
        return await handler(request)
    except web.HTTPNotFound:
        return page_not_found()
    except web.HTTPMethodNotAllowed:
        return method_not_allowed()
    except ProverError as raised:
        error = raised
    except Exception:  # noqa: BLE001 - the outermost edge: counted, logged with its traceback, answered
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
