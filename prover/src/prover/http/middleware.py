"""What surrounds every handler, outermost first: request id and log line, then error answers."""

import re
import time
import uuid

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from prover.errors import BodyTooLarge, ProverError, ShuttingDown, TryAgainLater
from prover.http.responses import method_not_allowed, page_not_found, problem_response
from prover.http.state import CIRCUIT_TYPE, EXTRA_HEADERS, FACTS, REQUEST_ID, STATE
from prover.observability.metrics import UNKNOWN_CIRCUIT
from shared.logs import bind, get_logger

_log = get_logger(__name__)

REQUEST_ID_HEADER = "X-Request-Id"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}", re.ASCII)
_KEY_RETRY_S = 60
_QUIET_PATHS = frozenset({"/health"})


@web.middleware
async def canonical_line(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Give the request an id and write one line about it when it is over."""
    given = request.headers.get(REQUEST_ID_HEADER, "")
    request_id = given if _REQUEST_ID.fullmatch(given) else str(uuid.uuid4())
    request[REQUEST_ID] = request_id
    started = time.perf_counter()
    with bind(request_id=request_id):
        status = 0
        try:
            response = await handler(request)
            status = response.status
        finally:
            # Status 0: the client left before there was an answer.
            write = _log.debug if request.path in _QUIET_PATHS and status < 400 else _log.info
            write(
                "request_finished" if status else "client_left",
                method=request.method,
                path=request.path,
                status=status,
                duration_ms=round((time.perf_counter() - started) * 1000, 1),
                **request.get(FACTS, {}),
            )
        response.headers[REQUEST_ID_HEADER] = request_id
        return response


@web.middleware
async def error_answers(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn every failure into the answer that clients expect."""
    try:
        return await handler(request)
    except web.HTTPNotFound:
        return page_not_found()
    except web.HTTPMethodNotAllowed:
        return method_not_allowed()
    except web.HTTPRequestEntityTooLarge:
        limit = request.app[STATE].settings.http.body_limit_bytes
        error: ProverError = BodyTooLarge(f"the request body is larger than {limit} bytes")
    except ProverError as raised:
        error = raised
    except Exception:  # noqa: BLE001 - the outermost edge: counted, logged with its traceback, answered
        structlog.stdlib.get_logger(__name__).exception("unexpected_error")
        request.app[STATE].metrics.panics.labels(request.get(CIRCUIT_TYPE, UNKNOWN_CIRCUIT)).inc()
        error = ProverError()
    request[FACTS] = {
        "circuit_type": request.get(CIRCUIT_TYPE, UNKNOWN_CIRCUIT),
        "code": error.code,
        "error": error.detail,
    }
    response = problem_response(error, request[REQUEST_ID], _retry_after_s(request, error))
    response.headers.update(request.get(EXTRA_HEADERS, {}))
    return response


def _retry_after_s(request: web.Request, error: ProverError) -> int:
    if isinstance(error, TryAgainLater) and not isinstance(error, ShuttingDown):
        return request.app[STATE].admission.retry_after_s()
    return _KEY_RETRY_S if error.code.startswith("key_") else 1
