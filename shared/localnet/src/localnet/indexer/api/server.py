"""JSON-RPC 2.0 over HTTP, on any path (forester/docs/reference/indexer.md, "Transport")."""

from typing import Any

import msgspec
from aiohttp import web

from localnet.access import LOOPBACK_ONLY, AccessRules, restrict
from localnet.indexer.api.service import Service
from localnet.indexer.faults import Faults
from localnet.json_rpc import SERVER_ERROR, Framing, RpcError

_LARGEST_BODY = 10 * 1024 * 1024
_FRAMING = Framing(longest_batch=100, fault=RpcError(SERVER_ERROR, "Internal server error"), answers_all=True)
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
            body = await _FRAMING.answer_one({"jsonrpc": "2.0", "id": None, "method": name}, self._service.call)
            return _respond(body, status=503 if body is None or "error" in body else 200)

        return handle

    async def post(self, request: web.Request) -> web.Response:
        """Answer one call or several in an array; errors of calls are answers with status 200."""
        if self._faults.too_many_requests:
            return web.Response(status=429, text="Too Many Requests", headers={"Retry-After": "1"})
        return _respond(await _FRAMING.answer(await request.read(), self._service.call))


def _respond(body: Any, status: int = 200) -> web.Response:
    content = msgspec.json.encode(body)
    response = web.Response(body=content, content_type="application/json", status=status)
    if len(content) > _COMPRESSED_FROM:
        response.enable_compression()
    return response
