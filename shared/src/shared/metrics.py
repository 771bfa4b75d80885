"""A metrics registry without globals, and the small server that exposes it on its own address.

The server also answers probes, so that an orchestrator needs no access to the API port.
"""

import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from socketserver import TCPServer, ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from wsgiref.types import StartResponse, WSGIEnvironment

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    make_wsgi_app,
)

_MOST_CONNECTIONS = 256
"""Each has a thread, for at most the timeout below when its client says nothing."""

Probe = Callable[[], tuple[bool, str]]
"""Answers whether the process is fit, and one line that says what is missing."""


def new_registry() -> CollectorRegistry:
    """Return a registry that already reports the process, the interpreter and its garbage collector."""
    disable_created_metrics()  # type: ignore[no-untyped-call]  # creation times double the series and nobody plots them
    registry = CollectorRegistry(auto_describe=True)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


class MetricsServer:
    """Serves ``/metrics`` and the given probes from a background thread until closed.

    ``port`` 0 takes a free one; ``address`` tells which. OSError when the address is taken.
    """

    def __init__(
        self, registry: CollectorRegistry, host: str, port: int, probes: Mapping[str, Probe] | None = None
    ) -> None:
        application = _Application(make_wsgi_app(registry), dict(probes or {}))
        server = _ThreadingServerV6 if ":" in host else _ThreadingServer
        self._server = make_server(host, port, application, server, _QuietHandler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that are listened on."""
        host, port = self._server.server_address[:2]
        return str(host), int(port)

    def close(self) -> None:
        """Stop serving and release the address."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Application:
    def __init__(self, metrics: Callable[..., Any], probes: dict[str, Probe]) -> None:
        self._metrics = metrics
        self._probes = probes

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path in ("/metrics", "/"):
            body: Iterable[bytes] = self._metrics(environ, start_response)
            return body
        probe = self._probes.get(path)
        if probe is None:
            start_response("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
            return [b"404 page not found\n"]
        fit, line = probe()
        status = "200 OK" if fit else "503 Service Unavailable"
        start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{line}\n".encode()]


class _ThreadingServer(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._places = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        super().__init__(*arguments, **options)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give a connection a thread, or close it when there are too many."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection in its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def server_bind(self) -> None:
        # The parent class looks the host name up in the DNS, which takes seconds without a network.
        TCPServer.server_bind(self)
        host, port = self.server_address[:2]
        self.server_name, self.server_port = str(host), port
        self.setup_environ()


class _ThreadingServerV6(_ThreadingServer):
    address_family = socket.AF_INET6


class _QuietHandler(WSGIRequestHandler):
    timeout = 10

    def log_message(self, *_: object) -> None:
        """Drop access lines; scrapes are not events."""
