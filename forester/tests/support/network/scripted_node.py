"""An RPC node behind a real socket that answers as a test wants it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Answer = Callable[[dict[str, Any]], Awaitable[web.Response]]


@dataclass
class ScriptedNode:
    """Plays ``script`` answer by answer, then ``usual``; remembers what it was asked."""

    script: list[Answer] = field(default_factory=list)
    usual: Answer | None = None
    asked: list[str] = field(default_factory=list)
    url: str = ""

    async def handle(self, request: web.Request) -> web.Response:
        body: dict[str, Any] = await request.json()
        self.asked.append(body["method"])
        answer = self.script.pop(0) if self.script else self.usual or result("ok")
        return await answer(body)


def result(value: Any) -> Answer:
    async def answer(_: dict[str, Any]) -> web.Response:
        return web.json_response({"jsonrpc": "2.0", "id": 1, "result": value})

    return answer


def failure(code: int, message: str, data: Any = None) -> Answer:
    async def answer(_: dict[str, Any]) -> web.Response:
        return web.json_response({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": message, "data": data}})

    return answer


def status(code: int, text: str = "", headers: dict[str, str] | None = None) -> Answer:
    async def answer(_: dict[str, Any]) -> web.Response:
        return web.Response(status=code, text=text, headers=headers)

    return answer


async def silence(_: dict[str, Any]) -> web.Response:
    """Never answer, so that the client has to give up."""
    await asyncio.Event().wait()
    raise AssertionError


@contextlib.asynccontextmanager
async def serving(*nodes: ScriptedNode) -> AsyncIterator[None]:
    async with contextlib.AsyncExitStack() as stack:
        for node in nodes:
            app = web.Application()
            app.router.add_post("/{tail:.*}", node.handle)
            runner = web.AppRunner(app, shutdown_timeout=0.1)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            port = runner.addresses[0][1]
            node.url = f"http://127.0.0.1:{port}/"
        yield
