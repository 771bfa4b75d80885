"""A service that answers every request with all that it was sent, as an error: secrets come back, too."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncIterator

from aiohttp import web


class Echo:
    """Answers every request with all that it was sent, as an error."""

    def __init__(self) -> None:
        self.port = 0
        self.asked: Counter[str] = Counter()
        self.bodies: list[str] = []

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.text()
        self.asked[request.path.split("/")[1]] += 1
        self.bodies.append(body)
        reported = f"{request.url} {request.rel_url} {dict(request.headers)} {body}"
        if request.path.startswith(("/rpc", "/indexer")):
            error = {"code": -32602, "message": f"not for {reported}", "data": {"url": str(request.url)}}
            return web.json_response({"jsonrpc": "2.0", "id": 1, "error": error})
        return web.Response(status=400, text=reported[:400])

    def url(self, path: str, user: str = "", query: str = "") -> str:
        return f"http://{user}127.0.0.1:{self.port}{path}{query}"


@contextlib.asynccontextmanager
async def echoing() -> AsyncIterator[Echo]:
    echo = Echo()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", echo.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        echo.port = runner.addresses[0][1]
        yield echo
    finally:
        await runner.cleanup()
