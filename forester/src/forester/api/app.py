"""The monitoring API: a small read-only HTTP server inside the daemon.

Every answer is made from memory: no request causes a call to a node, and none waits. Connections are few, headers
short, bodies are not read.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from functools import partial
from http import HTTPStatus

from aiohttp import web

from forester.api.dashboard_routes import DASHBOARD
from forester.api.dashboard_routes import ROUTES as PAGE_ROUTES
from forester.api.metrics_json import PrometheusSource
from forester.api.routes import MONITORING, ROUTES, Monitoring, as_json
from forester.errors import SettingsInvalid
from forester.loop_pauses import Pacer
from forester.settings import Settings
from shared.process.listening import listen, shown_address
from shared.process.logs import get_logger

_log = get_logger(__name__)

MAXIMUM_CONNECTIONS = 384
"""Enough for 200 viewers of the page and for probes; leaves the process the descriptors that its work needs.

One more connection closes the oldest."""

_ANSWERS_AT_ONCE = 20
"""Answers in one iteration of the event loop: some two milliseconds."""

_PACER = web.AppKey("pacer", Pacer)

_IDLE_S = 30.0
"""Seconds for a first header, and for the next request of a connection."""

_HEADER_LINE_BYTES = 8190
_LINGER_S = 2.0
_LAST_WORDS_S = 2.0
_SERVER = "forester"
_METHODS = "GET, HEAD, OPTIONS"

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def create_app(state: Monitoring) -> web.Application:
    """Compose the application."""
    app = web.Application(middlewares=[_answers])
    app[MONITORING] = state
    app[_PACER] = Pacer(_ANSWERS_AT_ONCE)
    routes = dict(ROUTES)
    if state.dashboard is not None:
        app[DASHBOARD] = state.dashboard
        routes |= PAGE_ROUTES
    for path, handler in routes.items():
        app.router.add_get(path, handler)
    return app


@contextlib.asynccontextmanager
async def serving_api(settings: Settings, state: Monitoring) -> AsyncIterator[tuple[str, int] | None]:
    """Serve while the block runs; yield host and port, None if the settings name no port.

    On 127.0.0.1, or on all interfaces with ``api_server_public_bind``. Raises SettingsInvalid for a port in use.
    """
    if settings.api_server_port is None:
        yield None
        return
    if settings.prometheus_url is not None:
        state = replace(state, prometheus=PrometheusSource(settings.prometheus_url.get_secret_value()))
    host = "" if settings.api_server_public_bind else "127.0.0.1"
    runner = web.AppRunner(create_app(state), shutdown_timeout=_LAST_WORDS_S)
    await runner.setup()
    source = asyncio.create_task(state.prometheus.run(), name="prometheus") if state.prometheus is not None else None
    server: asyncio.Server | None = None
    try:
        server = await _listen(runner, host, settings.api_server_port)
        address: tuple[str, int] = server.sockets[0].getsockname()[:2]
        _log.info("api_listening", address=shown_address(*address), public=settings.api_server_public_bind)
        if settings.api_server_public_bind:
            _log.warning("api_unauthenticated", detail="every client that reaches the address of the API may read it")
        yield address
    finally:
        if server is not None:
            server.close()
        if source is not None:
            source.cancel()
            await asyncio.wait([source])
        await runner.cleanup()


async def _listen(runner: web.AppRunner, host: str, port: int) -> asyncio.Server:
    handlers = runner.server
    assert handlers is not None  # noqa: S101 - setup made it
    loop = asyncio.get_running_loop()
    connection = partial(
        _Connection,
        handlers,
        loop=loop,
        keepalive_timeout=_IDLE_S,
        lingering_time=_LINGER_S,
        access_log=None,  # type: ignore[arg-type]  # None switches it off, as in web.AppRunner
        max_line_size=_HEADER_LINE_BYTES,
        max_field_size=_HEADER_LINE_BYTES,
    )

    def accept() -> asyncio.Protocol:
        """Make room at the limit: clients that hold connections must not keep probes from being answered."""
        transports = [item.transport for item in handlers.connections]
        served = [transport for transport in transports if transport is not None and not transport.is_closing()]
        if len(served) >= MAXIMUM_CONNECTIONS:
            served[0].abort()
        return connection()

    try:
        return await loop.create_server(accept, sock=listen(host, port))
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or error
        raise SettingsInvalid(
            f"--api-server-port: cannot listen on {host or '*'}:{port}: {reason}; choose another port"
        ) from None


class _Connection(web.RequestHandler):
    """One connection of aiohttp; bytes that are not HTTP get the usual error answer and are not logged."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - what the client sent is in it
    ) -> web.StreamResponse:
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            _log.error("api_failed", exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has begun already")
        response = as_json({"error": HTTPStatus(status).phrase}, status)
        response.headers["Server"] = _SERVER
        response.force_close()
        return response


@web.middleware
async def _answers(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """Answer errors as JSON without any part of the request; pages of any origin may read all answers."""
    response: web.StreamResponse
    if request.method == "OPTIONS":
        response = web.Response(status=HTTPStatus.NO_CONTENT, headers={"Allow": _METHODS})
        response.headers["Access-Control-Allow-Methods"] = _METHODS
        response.headers["Access-Control-Allow-Headers"] = "Content-Type"
    else:
        await request.app[_PACER].wait()
        try:
            response = await handler(request)
        except web.HTTPNotFound:
            response = as_json({"error": "there is no such path; / names those that exist"}, HTTPStatus.NOT_FOUND)
        except web.HTTPMethodNotAllowed:
            response = as_json({"error": "only GET and HEAD are answered"}, HTTPStatus.METHOD_NOT_ALLOWED)
            response.headers["Allow"] = _METHODS
    response.headers["Server"] = _SERVER
    response.headers["Access-Control-Allow-Origin"] = "*"
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response
