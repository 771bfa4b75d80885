"""JSON-RPC 2.0 over HTTP, on any path (forester/docs/reference/indexer.md, "Transport")."""

import logging
from typing import Any

import msgspec
from aiohttp import web

from localnet.access import LOOPBACK_ONLY, AccessRules, restrict
from localnet.indexer.api.errors import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    SERVER_ERROR,
    ApiError,
)
from localnet.indexer.api.service import Service
from localnet.indexer.api.shapes import Json
from localnet.indexer.faults import Faults

_log = logging.getLogger(__name__)

_LARGEST_BODY = 10 * 1024 * 1024
_LONGEST_BATCH = 100
_COMPRESSED_FROM = 1024


def make_app(service: Service, faults: Faults | None = None, access: AccessRules = LOOPBACK_ONLY) -> web.Application:
    """Return the application; the caller closes the store and the clients of ``service``."""
    app = web.Application(client_max_size=_LARGEST_BODY)
    restrict(app, access)
    handler = _Handler(service, faults or Faults())
    app.router.add_get("/liveness", handler.probe("liveness"))
    app.router.add_get("/readiness", handler.probe("readiness"))
    app.router.add_post("/{path:.*}", handler.post)
    app.router.add_options("/{path:.*}", _preflight)
    return app


async def _preflight(_: web.Request) -> web.Response:
    return web.Response()


class _Handler:
    """Frames calls and answers."""

    def __init__(self, service: Service, faults: Faults) -> None:
        self._service = service
        self._faults = faults

    def probe(self, name: str) -> Any:
        """Return a handler of GET that calls a method without parameters."""

        async def handle(_: web.Request) -> web.Response:
            body = await self._answer({"jsonrpc": "2.0", "id": None, "method": name})
            return _respond(body, status=503 if "error" in body else 200)

        return handle

    async def post(self, request: web.Request) -> web.Response:
        """Answer one call or several in an array; errors of calls are answers with status 200."""
        if self._faults.too_many_requests:
            return web.Response(status=429, text="Too Many Requests", headers={"Retry-After": "1"})
        try:
            content = msgspec.json.decode(await request.read())
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return _respond(_failure(None, ApiError(PARSE_ERROR, "Parse error")))
        if isinstance(content, list):
            if not 0 < len(content) <= _LONGEST_BATCH:
                return _respond(_failure(None, ApiError(INVALID_REQUEST, "Invalid request")))
            answer: Any = [await self._answer(call) for call in content]
        else:
            answer = await self._answer(content)
        return _respond(answer)

    async def _answer(self, call: object) -> Json:
        if not isinstance(call, dict) or call.get("jsonrpc") != "2.0" or not isinstance(call.get("method"), str):
            return _failure(None, ApiError(INVALID_REQUEST, "Invalid request"))
        number = call.get("id")
        if isinstance(number, (dict, list, bool)):
            return _failure(None, ApiError(INVALID_REQUEST, "Invalid request"))
        name = call["method"]
        try:
            result = await self._service.call(name, call.get("params"))
        except ApiError as error:
            if error.code not in (METHOD_NOT_FOUND, SERVER_ERROR):
                _log.debug("%s: %s", name, error)
            return _failure(number, error)
        except Exception:  # noqa: BLE001 - the caller gets an answer without insides; the log has the rest
            _log.exception("%s failed", name)
            return _failure(number, ApiError(SERVER_ERROR, "Internal server error"))
        return {"jsonrpc": "2.0", "result": result, "id": number}


def _failure(number: object, error: ApiError) -> Json:
    body: Json = {"code": error.code, "message": error.message}
    if error.data is not None:
        body["data"] = error.data
    return {"jsonrpc": "2.0", "error": body, "id": number}


def _respond(body: Any, status: int = 200) -> web.Response:
    content = msgspec.json.encode(body)
    response = web.Response(body=content, content_type="application/json", status=status)
    if len(content) > _COMPRESSED_FROM:
        response.enable_compression()
    return response
