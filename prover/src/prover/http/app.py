"""The API application, and the server that runs it until shutdown."""

import asyncio
import errno
import os
import signal
from collections.abc import Callable
from functools import partial

from aiohttp import web
from prometheus_client import CollectorRegistry

from prover.errors import AddressUnavailable
from prover.http.middleware.authentication import authenticate
from prover.http.middleware.cors import cross_origin
from prover.http.middleware.error_answers import error_answers
from prover.http.middleware.request_log import log_request
from prover.http.routes.about import DOCS_PAGE, OPENAPI_DOCUMENT
from prover.http.routes.probes import probes
from prover.http.routes.table import ROUTES
from prover.http.server.connections import ConnectionGuards
from prover.http.server.framing import ProblemProtocol
from prover.http.server.metrics_server import MetricsServer
from prover.http.server.responses import SERVER_NAME
from prover.http.state import STATE, ServerState
from prover.observability.memory import MemoryCollector
from shared.process.listening import EVERYWHERE, listen, shown_address
from shared.process.logs import get_logger
from shared.process.shutdown import Shutdown

_log = get_logger(__name__)

_BACKLOG = 1024
_SHUTDOWN_TIMEOUT_S = 5
_API_OPTION = "--prover-address"
_METRICS_OPTION = "--metrics-address"


def create_app(state: ServerState) -> web.Application:
    """Compose the application; the caller owns ``state`` and closes it."""
    cors = [cross_origin] if state.settings.http.cors_origins else []
    app = web.Application(middlewares=[log_request, *cors, error_answers, authenticate])
    app[STATE] = state
    app[OPENAPI_DOCUMENT] = _openapi_document
    app[DOCS_PAGE] = _docs_page
    for route in ROUTES:
        if route.needs_queue and state.queue is None:
            continue
        app.router.add_route(route.method, route.path, route.handler)
    app.on_response_prepare.append(_complete_headers)
    return app


def create_runner(state: ServerState) -> web.AppRunner:
    """Return a runner that cancels a handler when its client disconnects."""
    return web.AppRunner(
        create_app(state),
        handler_cancellation=True,
        shutdown_timeout=_SHUTDOWN_TIMEOUT_S,
    )


class Listener:
    """A server on an address. After ``start`` it must be closed."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._runner = create_runner(state)
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that are listened on."""
        assert self._server is not None  # noqa: S101 - only after start
        host, port = self._server.sockets[0].getsockname()[:2]
        return str(host), int(port)

    async def start(self) -> None:
        """Accept connections. Raises AddressUnavailable for an address that is in use or does not exist."""
        settings = self._state.settings.http
        host, port = split_address(settings.address)
        await self._runner.setup()
        handlers = self._runner.server
        assert handlers is not None  # noqa: S101 - setup made it
        make_protocol = partial(ProblemProtocol, handlers, settings, self._state.metrics, self._state.log_throttle)
        guards = ConnectionGuards(make_protocol, settings, self._state.metrics, self._state.log_throttle)
        loop = asyncio.get_running_loop()
        try:
            if host in EVERYWHERE:
                self._server = await loop.create_server(guards, sock=listen(host, port), backlog=_BACKLOG)
            else:  # a name may have several addresses
                self._server = await loop.create_server(guards, host, port, backlog=_BACKLOG)
        except OSError as error:
            raise _cannot_listen(_API_OPTION, settings.address, error) from error
        self._state.listening = True

    def refuse(self) -> None:
        """Accept no more connections, and close open ones when they are idle or have their present answer."""
        if self._server is not None:
            self._server.close()
        if self._runner.server is not None:
            self._runner.server.pre_shutdown()

    async def close(self) -> None:
        """Close the server and its connections, after a few seconds for answers in progress."""
        self.refuse()
        self._state.listening = False
        await self._runner.cleanup()


async def serve(
    state: ServerState,
    registry_server: MetricsServer | None,
    shutdown: Shutdown,
    begin: Callable[[], None] = lambda: None,
) -> None:
    """Listen, call ``begin``, and serve until ``shutdown`` is requested, then drain.

    Raises AddressUnavailable for an address in use.
    """
    listener = Listener(state)
    try:
        await listener.start()
        begin()
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, state.api_keys.reload)
        _log.info(
            "listening",
            api=shown_address(*listener.address),
            metrics=shown_address(*registry_server.address) if registry_server else None,
            keys=len(state.keys.installed()),
            api_keys=state.api_keys.required,
        )
        if not state.api_keys.required:
            _log.warning("api_unauthenticated", detail="no API key is configured; every client that connects may prove")
        state.api_keys.warn_of_short_keys()
        await shutdown.wait()
        await state.announce_stop()
        listener.refuse()
        await state.drain()
        _log.info("drained")
    finally:
        await listener.close()


def split_address(address: str) -> tuple[str, int]:
    """Split ``host:port``, ``[v6]:port`` or ``:port`` (everywhere), as the settings accept them."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def start_metrics_server(state: ServerState, registry: CollectorRegistry) -> MetricsServer:
    """Serve metrics and probes on their own address.

    Raises AddressUnavailable for an address in use that was configured. The default address falls back to a free port:
    launchers that start several provers on a host set the API address only.
    """
    http = state.settings.http
    host, port = split_address(http.metrics_address)
    registry.register(MemoryCollector())
    try:
        return MetricsServer(registry, host, port, probes(state))
    except OSError as error:
        if "metrics_address" in http.given or error.errno != errno.EADDRINUSE:
            raise _cannot_listen(_METRICS_OPTION, http.metrics_address, error) from error
    _log.warning(
        "metrics_address_taken",
        address=http.metrics_address,
        detail="metrics and probes use a free port",
        remedy=f"choose an address with {_METRICS_OPTION}",
    )
    return MetricsServer(registry, host, 0, probes(state))


def _cannot_listen(option: str, address: str, error: OSError) -> AddressUnavailable:
    # The event loop adds its own text to the system's message; a host that is not found has no such errno.
    reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or error
    detail = f"{option}: cannot listen on {address}: {reason}; choose another address"
    return AddressUnavailable(detail, names=(option,))


def _openapi_document() -> bytes:
    from prover.http.description.openapi import encoded_document  # most servers never answer it

    return encoded_document()


def _docs_page() -> web.Response:
    from prover.http.description.page import HEADERS, encoded_page

    return web.Response(body=encoded_page(), content_type="text/html", charset="utf-8", headers=HEADERS)


async def _complete_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = SERVER_NAME
    if request.app[STATE].stop_announced:
        # The client's next request then goes to another instance.
        response.headers["Connection"] = "close"
        response.force_close()
