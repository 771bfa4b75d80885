"""HTTP and WebSocket server of the JSON-RPC interface."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec
from aiohttp import WSCloseCode, WSMsgType, web

from localnet.access import LOOPBACK_ONLY, AccessRules, restrict
from localnet.chain.network import Network
from localnet.rpc import dispatch
from localnet.rpc.subscriptions import Connection

MAX_BODY_BYTES = 50 * 1024
"""As nodes have it."""
NETWORK = web.AppKey("network", Network)
METHODS = web.AppKey("methods", dict[str, dispatch.Method])
CONNECTIONS = web.AppKey("connections", set[web.WebSocketResponse])


def make_app(network: Network, access: AccessRules = LOOPBACK_ONLY) -> web.Application:
    """Return an application that serves a network: POST for requests, a WebSocket for subscriptions, GET /health.

    Methods may be added to ``app[METHODS]``.
    """
    app = web.Application(client_max_size=MAX_BODY_BYTES)
    restrict(app, access)
    app[NETWORK] = network
    app[METHODS] = dict(dispatch.METHODS)
    connections: set[web.WebSocketResponse] = set()
    app[CONNECTIONS] = connections
    app.on_shutdown.append(_close_connections)
    app.router.add_get("/health", _health)
    app.router.add_post("/{path:.*}", _post)
    app.router.add_options("/{path:.*}", _options)
    app.router.add_get("/{path:.*}", _websocket)
    return app


async def _health(_request: web.Request) -> web.Response:
    return web.Response(text="ok")


async def _options(_request: web.Request) -> web.Response:
    return web.Response()


async def _post(request: web.Request) -> web.Response:
    call = dispatch.calling(request.app[NETWORK], request.app[METHODS])
    answer = await dispatch.FRAMING.answer(await request.read(), call)
    if answer is None:
        return web.Response(status=204)
    return web.Response(body=msgspec.json.encode(answer), content_type="application/json")


async def _websocket(request: web.Request) -> web.StreamResponse:
    websocket = web.WebSocketResponse(heartbeat=30)
    if not websocket.can_prepare(request):
        return web.Response(status=405, text="Used HTTP Method is not allowed. POST or OPTIONS is required\n")
    await websocket.prepare(request)
    connection = Connection(request.app[NETWORK])
    request.app[CONNECTIONS].add(websocket)
    writer = asyncio.create_task(_write(websocket, connection))
    try:
        async for message in websocket:
            if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
                await connection.receive(message.data)
    finally:
        connection.close()
        request.app[CONNECTIONS].discard(websocket)
        writer.cancel()
        with contextlib.suppress(asyncio.CancelledError, ConnectionError):
            await writer
    return websocket


async def _write(websocket: web.WebSocketResponse, connection: Connection) -> None:
    while not connection.overrun.is_set():
        body = await connection.outbox.get()
        await websocket.send_str(body.decode())
    await websocket.close(code=WSCloseCode.TRY_AGAIN_LATER, message=b"reads too slowly")


async def _close_connections(app: web.Application) -> None:
    connections = app[CONNECTIONS]
    for websocket in tuple(connections):
        await websocket.close(code=WSCloseCode.GOING_AWAY, message=b"localnet stops")


@contextlib.asynccontextmanager
async def serving(app: web.Application, host: str, *ports: int) -> AsyncIterator[list[int]]:
    """Listen on some ports, 0 for any free one; yield the ports. Raise OSError if one is in use."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        for port in ports:
            await web.TCPSite(runner, host, port).start()
        yield [address[1] for address in runner.addresses]
    finally:
        await runner.cleanup()
