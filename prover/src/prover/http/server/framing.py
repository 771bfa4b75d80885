"""Refusals of invalid HTTP: a problem with a code, as for other errors, without the client's bytes."""

import asyncio
import re
from http import HTTPStatus

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong

from prover.errors import HeaderTooLarge, MalformedRequest, ProverError, TargetTooLong
from prover.http.server.log_throttle import LogThrottles
from prover.http.server.problem import PROBLEM_CONTENT_TYPE, encode_problem, problem
from prover.http.server.responses import SERVER_NAME, problem_response
from prover.http.server.tracing import REQUEST_ID_HEADER, request_id
from prover.observability.metrics import Metrics
from prover.settings import HttpSettings
from shared.process.logs import get_logger

_log = get_logger(__name__)

_LINGER_S = 2
_TARGET_BYTES = 8190
_FIELD_BYTES = 8192
"""Limits of a request target and of a header field. They differ so that an error identifies the exceeded one."""
_MAXIMUM_FIELDS = 128
_MAXIMUM_PIPELINED = 2
_TOO_MANY_FIELDS = "Too many headers"
_EXPECTATION = "the Expect header of the request has a value other than 100-continue"
_HARMLESS = re.compile(r"[A-Za-z0-9' -]{1,80}", re.ASCII)


class ProblemProtocol(web.RequestHandler):
    """aiohttp's protocol of one connection, with problems as answers to invalid HTTP."""

    __slots__ = ("_log_throttle", "_metrics")

    def __init__(
        self, server: web.Server, settings: HttpSettings, metrics: Metrics, log_throttle: LogThrottles
    ) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=settings.idle_timeout_s,
            lingering_time=_LINGER_S,
            access_log=None,  # type: ignore[arg-type]  # None switches it off, as in web.AppRunner
            max_line_size=_TARGET_BYTES,
            max_field_size=_FIELD_BYTES,
            max_headers=_MAXIMUM_FIELDS,
            auto_decompress=False,  # as the reference, which ignores Content-Encoding
        )
        # Reading pauses while this many requests wait behind the current one. aiohttp lets 32 wait, with bodies that
        # no budget counts.
        self._max_msg_queue_size, self._msg_queue_resume_size = _MAXIMUM_PIPELINED, _MAXIMUM_PIPELINED - 1
        self._metrics = metrics
        self._log_throttle = log_throttle

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Replace aiohttp's refusal of an ``Expect`` header, which quotes the client and passes no middleware."""
        if isinstance(resp, web.HTTPExpectationFailed):
            self._log_refusal(resp.status, MalformedRequest(_EXPECTATION))
            identity = request_id(request.headers.get(REQUEST_ID_HEADER, ""))
            resp = self._closing(_expectation_refused(identity), identity)
        return await super().finish_response(request, resp, start_time)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - what the client sent is in it
    ) -> web.StreamResponse:
        """Answer a request that reached no handler. Raises ConnectionError when an answer has begun already."""
        error = framing_error(exc) if isinstance(exc, HttpProcessingError) else ProverError()
        if error.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            self._log_refusal(error.status, error)
        else:
            _log.error("unexpected_error", status=status, exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has begun already")
        identity = request_id("")
        return self._closing(problem_response(error, identity), identity)

    def _log_refusal(self, status: int, error: ProverError) -> None:
        fields = self._log_throttle.admit(f"framing_{error.code}")
        if fields is not None:
            _log.info("framing_refused", status=status, code=error.code, error=error.detail, **fields)

    def _closing(self, response: web.Response, identity: str) -> web.Response:
        """Count an answer that passes no middleware, and add the headers that they add."""
        self._metrics.responses.labels(str(response.status)).inc()
        response.headers[REQUEST_ID_HEADER] = identity
        response.headers["Server"] = SERVER_NAME
        response.headers["Connection"] = "close"
        response.force_close()
        return response


def framing_error(broken: HttpProcessingError) -> ProverError:
    """Return the error for bytes that aiohttp's parser refuses, without text of the client."""
    if isinstance(broken, LineTooLong):
        if broken.args[1] == _TARGET_BYTES:
            return TargetTooLong()
        return HeaderTooLarge()
    # After the first colon, messages of the parser quote the received bytes.
    reason = broken.message.split(":", 1)[0].strip().rstrip(".")
    if reason.startswith(_TOO_MANY_FIELDS):
        return HeaderTooLarge()
    if _HARMLESS.fullmatch(reason) is None:
        return MalformedRequest("the request is not valid HTTP")
    return MalformedRequest(f"the request is not valid HTTP: {reason}")


def _expectation_refused(identity: str) -> web.Response:
    """Return 417 with the code malformed_body of other invalid HTTP, and the status of the standard."""
    status = web.HTTPExpectationFailed.status_code
    body = problem(
        code=MalformedRequest.code,
        status=status,
        detail=_EXPECTATION,
        retryable=False,
        instance=f"urn:zkc:request:{identity}",
    )
    return web.Response(status=status, body=encode_problem(body), content_type=PROBLEM_CONTENT_TYPE)


def raw_answer(error: ProverError, *headers: str) -> bytes:
    """Return the bytes of an answer that closes a connection without a request."""
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
