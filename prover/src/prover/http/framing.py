"""Bytes that break HTTP itself are refused as everything else is: a problem with a code, without the client's bytes."""

import asyncio
import re
from http import HTTPStatus

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong

from prover.errors import HeaderTooLarge, MalformedRequest, ProverError, TargetTooLong
from prover.http.responses import SERVER_NAME, problem_response
from prover.http.tracing import REQUEST_ID_HEADER, request_id
from prover.observability.metrics import Metrics
from prover.settings import HttpSettings
from shared.logs import get_logger
from shared.problem import PROBLEM_CONTENT_TYPE, encode_problem, problem

_log = get_logger(__name__)

_LINGER_S = 2
_TARGET_BYTES = 8190
_FIELD_BYTES = 8192
"""Limits of a request target and of a header field. They differ, so that an error tells which was exceeded."""
_MOST_FIELDS = 128
_TOO_MANY_FIELDS = "Too many headers"
_HARMLESS = re.compile(r"[A-Za-z0-9' -]{1,80}", re.ASCII)


class ProblemProtocol(web.RequestHandler):
    """aiohttp's side of one connection, with problems as answers to what it cannot read."""

    __slots__ = ("_metrics",)

    def __init__(self, server: web.Server, settings: HttpSettings, metrics: Metrics) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=settings.idle_timeout_s,
            lingering_time=_LINGER_S,
            access_log=None,  # type: ignore[arg-type]  # None switches it off, as in web.AppRunner
            max_line_size=_TARGET_BYTES,
            max_field_size=_FIELD_BYTES,
            max_headers=_MOST_FIELDS,
        )
        self._metrics = metrics

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - what the client sent is in it
    ) -> web.StreamResponse:
        """Answer what no handler has seen. Raises ConnectionError when an answer has begun already."""
        error = framing_error(exc) if isinstance(exc, HttpProcessingError) else ProverError()
        if error.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            _log.info("framing_refused", status=error.status, code=error.code, error=error.detail)
        else:
            _log.error("unexpected_error", status=status, exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has begun already")
        self._metrics.responses.labels(str(error.status)).inc()
        identity = request_id("")
        response = problem_response(error, identity)
        response.headers[REQUEST_ID_HEADER] = identity
        response.headers["Server"] = SERVER_NAME
        response.headers["Connection"] = "close"
        response.force_close()
        return response


def framing_error(broken: HttpProcessingError) -> ProverError:
    """Say what is wrong with bytes that aiohttp's parser refuses, in words that are not the client's."""
    if isinstance(broken, LineTooLong):
        if broken.args[1] == _TARGET_BYTES:
            return TargetTooLong()
        return HeaderTooLarge()
    # Behind the first colon, messages of the parser quote what was received.
    reason = broken.message.split(":", 1)[0].strip().rstrip(".")
    if reason.startswith(_TOO_MANY_FIELDS):
        return HeaderTooLarge()
    if _HARMLESS.fullmatch(reason) is None:
        return MalformedRequest("the request is not valid HTTP")
    return MalformedRequest(f"the request is not valid HTTP: {reason}")


def raw_answer(error: ProverError, *headers: str) -> bytes:
    """Write an answer for a connection that has no request, closing it."""
    body = encode_problem(problem(code=error.code, status=error.status, detail=error.detail, retryable=error.retryable))
    lines = (
        f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}",
        *headers,
        "Connection: close",
        f"Server: {SERVER_NAME}",
        f"Content-Type: {PROBLEM_CONTENT_TYPE}",
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join((*lines, "", "")).encode() + body
