"""The API application, and a server that runs it until asked to stop."""

from aiohttp import web
from prometheus_client import CollectorRegistry

from prover.errors import SettingsInvalid
from prover.http.middleware import canonical_line, error_answers
from prover.http.probes import probes
from prover.http.routes import ROUTES
from prover.http.state import STATE, ServerState
from shared.logs import get_logger
from shared.metrics import MetricsServer
from shared.shutdown import Shutdown

_log = get_logger(__name__)

_KEEP_ALIVE_S = 75
_LAST_WORDS_S = 5
_EVERYWHERE = "0.0.0.0"  # noqa: S104 - what an address without a host means


def create_app(state: ServerState) -> web.Application:
    """Compose the application; the caller owns ``state`` and closes it."""
    app = web.Application(
        middlewares=[canonical_line, error_answers], client_max_size=state.settings.http.body_limit_bytes
    )
    app[STATE] = state
    for route in ROUTES:
        app.router.add_route(route.method, route.path, route.handler)
    app.on_response_prepare.append(_drop_server_header)
    return app


def create_runner(state: ServerState) -> web.AppRunner:
    """Wrap the application so that a handler is cancelled when its client leaves."""
    return web.AppRunner(
        create_app(state),
        handler_cancellation=True,
        access_log=None,
        keepalive_timeout=_KEEP_ALIVE_S,
        shutdown_timeout=_LAST_WORDS_S,
    )


async def serve(state: ServerState, registry_server: MetricsServer | None, shutdown: Shutdown) -> None:
    """Listen until ``shutdown`` is requested, then drain. Raises SettingsInvalid for a taken address."""
    host, port = split_address(state.settings.http.address)
    runner = create_runner(state)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        try:
            await site.start()
        except OSError as error:
            raise SettingsInvalid(f"cannot listen on {host}:{port}: {error.strerror}") from error
        _log.info(
            "listening",
            api=_shown(runner.addresses[0]),
            metrics=_shown(registry_server.address) if registry_server else None,
            keys=len(state.keys.installed()),
        )
        reason = await shutdown.wait()
        await site.stop()
        await state.drain()
        _log.info("drained", reason=str(reason.name))
    finally:
        await runner.cleanup()


def split_address(address: str) -> tuple[str, int]:
    """Split ``host:port``, ``:port`` or ``[v6]:port``; raises SettingsInvalid."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise SettingsInvalid(f"{address!r} is not an address; write host:port, for example 127.0.0.1:3001")
    return host.strip("[]") or _EVERYWHERE, int(port)


def start_metrics_server(state: ServerState, registry: CollectorRegistry) -> MetricsServer:
    """Serve metrics and probes on their own address; raises SettingsInvalid for a taken one."""
    host, port = split_address(state.settings.http.metrics_address)
    try:
        return MetricsServer(registry, host, port, probes(state))
    except OSError as error:
        raise SettingsInvalid(f"cannot serve metrics on {host}:{port}: {error.strerror}") from error


async def _drop_server_header(_: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = "zkc-prover"


def _shown(address: tuple[object, ...]) -> str:
    return f"{address[0]}:{address[1]}"
