"""Server of the metrics address: Prometheus metrics and probes, in a separate thread and event loop.

It answers when the loop of the API is busy or blocked. A connection is for one request and has a total deadline. When
there are too many, a new one replaces the oldest that has sent no request: idle clients cannot keep probes out.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from prover.http.server.responses import SERVER_NAME
from shared.process.listening import listen
from shared.process.logs import get_logger

_log = get_logger(__name__)

_MAXIMUM_CONNECTIONS = 128
_BACKLOG = 1024
_ACCEPTED_AT_ONCE = 32
"""Connections that the loop accepts before it reads from others: few enough that a request is read before newer
connections could replace its own."""
_DEADLINE_S = 10.0
"""Maximum duration of a connection in seconds."""
_PLAIN_TEXT = {"Content-Type": "text/plain; charset=utf-8"}
_METRICS_PATHS = frozenset({"/metrics", "/"})

Probe = Callable[[], tuple[bool, str]]
"""Returns True if the probe succeeds, and one line of explanation."""


class MetricsServer:
    """Serves ``/metrics`` and the given probes from a background thread until closed.

    ``port`` 0 selects a free one, which ``address`` contains. Raises OSError when the address is in use.
    """

    def __init__(
        self, registry: CollectorRegistry, host: str, port: int, probes: Mapping[str, Probe] | None = None
    ) -> None:
        self._socket = listen(host, port)
        bound_host, bound_port = self._socket.getsockname()[:2]
        self._address = str(bound_host), int(bound_port)
        self._handler = _MetricsHandler(registry, dict(probes or {}))
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)
        self._thread.start()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that are listened on."""
        return self._address

    def close(self) -> None:
        """Stop serving and release the address."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        handlers = web.Server(self._handler.answer, handler_cancellation=True)
        connections = _OpenConnections()
        server = await self._loop.create_server(
            lambda: _MetricsProtocol(handlers, connections), sock=self._socket, backlog=_ACCEPTED_AT_ONCE
        )
        # asyncio's backlog is also the number that it accepts at once; more may wait in the system.
        self._socket.listen(_BACKLOG)
        await self._stop.wait()
        server.close()
        connections.close()
        self._handler.close()


class _OpenConnections:
    """Open connections, at most 128, the oldest first."""

    def __init__(self) -> None:
        self._waiting: dict[_MetricsProtocol, None] = {}
        """Connections that have not sent a whole request yet."""
        self._answered: dict[_MetricsProtocol, None] = {}

    def enter(self, connection: "_MetricsProtocol") -> None:
        """Add a connection; above the maximum, abort the oldest, preferably one without a request."""
        if len(self._waiting) + len(self._answered) >= _MAXIMUM_CONNECTIONS:
            oldest = next(iter(self._waiting or self._answered))
            self.leave(oldest)
            oldest.abort()
        self._waiting[connection] = None

    def note_request(self, connection: "_MetricsProtocol") -> None:
        """Move a connection behind those that have sent no request."""
        if connection in self._waiting:
            del self._waiting[connection]
            self._answered[connection] = None

    def leave(self, connection: "_MetricsProtocol") -> None:
        """Forget a connection."""
        self._waiting.pop(connection, None)
        self._answered.pop(connection, None)

    def close(self) -> None:
        """End all connections."""
        for connection in (*self._waiting, *self._answered):
            connection.abort()


class _MetricsProtocol(web.RequestHandler):
    """aiohttp's protocol of one connection."""

    __slots__ = ("_connections", "_deadline", "_own_transport")

    def __init__(self, handlers: web.Server, connections: _OpenConnections) -> None:
        super().__init__(
            handlers,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=_DEADLINE_S,
            lingering_time=0,
            access_log=None,  # type: ignore[arg-type]  # None switches it off, as in web.AppRunner
        )
        self._connections = connections
        self._deadline: asyncio.TimerHandle | None = None
        self._own_transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - for the type checker
        self._own_transport = transport
        self._deadline = asyncio.get_running_loop().call_later(_DEADLINE_S, transport.abort)
        self._connections.enter(self)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._connections.leave(self)
        super().connection_lost(exc)

    def note_request(self) -> None:
        """Record that a whole request has arrived."""
        self._connections.note_request(self)

    def abort(self) -> None:
        """End the connection at once."""
        if self._own_transport is not None:
            self._own_transport.abort()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - quotes the client
    ) -> web.StreamResponse:
        """Answer a request that reached no handler; invalid HTTP is not logged."""
        if not isinstance(exc, HttpProcessingError):
            _log.error("metrics_request_failed", path=request.path, exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has begun already")
        return _closing(_text(status, "not valid HTTP" if status < 500 else "see the log"))


class _MetricsHandler:
    """Handler of metrics and probes. Each probe, and the scrape, runs in a thread, one at a time."""

    def __init__(self, registry: CollectorRegistry, probes: dict[str, Probe]) -> None:
        self._registry = registry
        self._probes = probes
        self._threads = ThreadPoolExecutor(len(probes) + 1, thread_name_prefix="metrics")
        self._probing: dict[str, asyncio.Future[tuple[bool, str]]] = {}
        self._scraping = asyncio.Lock()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request; any method counts as GET."""
        if isinstance(request.protocol, _MetricsProtocol):
            request.protocol.note_request()
        if request.path in _METRICS_PATHS:
            return _closing(await self._scrape(request))
        if request.path in self._probes:
            fit, line = await self._probe(request.path)
            return _closing(_text(200 if fit else 503, line))
        return _closing(_text(404, "404 page not found"))

    def close(self) -> None:
        """Start no more probes and scrapes."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _probe(self, path: str) -> tuple[bool, str]:
        """Run a probe; requests that arrive during the run share its result."""
        running = self._probing.get(path)
        if running is None:
            loop = asyncio.get_running_loop()
            running = self._probing[path] = loop.run_in_executor(self._threads, self._probes[path])
            running.add_done_callback(lambda _: self._probing.pop(path))
        return await asyncio.shield(running)

    async def _scrape(self, request: web.BaseRequest) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        names = request.query.getall("name[]", [])
        async with self._scraping:
            registry = self._registry.restricted_registry(names) if names else self._registry
            body = await asyncio.get_running_loop().run_in_executor(self._threads, encode, registry)
        response = web.Response(body=body, headers={"Content-Type": content_type})
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            response.enable_compression(web.ContentCoding.gzip)
        return response


def _text(status: int, line: str) -> web.Response:
    return web.Response(status=status, body=f"{line}\n".encode(), headers=_PLAIN_TEXT)


def _closing(response: web.Response) -> web.Response:
    response.headers["Server"] = SERVER_NAME
    response.force_close()
    return response
