"""The outermost middleware: ids of a request, and one log line about it when it ends."""

import time
from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Handler

from prover.http.middleware.authentication import OPEN_PATHS
from prover.http.request_fields import API_KEY_NAME, FACTS, REQUEST_ID
from prover.http.server.tracing import REQUEST_ID_HEADER, TRACE_HEADER, request_id, trace_fields
from prover.http.state import STATE
from shared.process.logs import bind, get_logger

_log = get_logger(__name__)


@web.middleware
async def log_request(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Set the ids of a request, and log one line about it when it ends."""
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
    """Log the line of a request; status 0 means that the client disconnected before the answer."""
    facts = request.get(FACTS, {})
    # Any client may send these without limit: keys are not required for some paths, nor for preflights.
    is_open = request.path in OPEN_PATHS or request.method == "OPTIONS"
    is_quiet = is_open and status < HTTPStatus.INTERNAL_SERVER_ERROR
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
    """Return True for a status that any client can cause without limit."""
    return not status or status == HTTPStatus.SERVICE_UNAVAILABLE or 400 <= status < 500
