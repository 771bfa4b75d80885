"""Calls of the prover over real sockets, and what becomes of their failures."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from localnet.indexer.api.upstream import prove
from localnet.json_rpc import RpcError

Handler = Callable[[web.Request], Awaitable[web.Response]]


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


async def server_of(handler: Handler) -> TestServer:
    app = web.Application()
    app.router.add_post("/{path:.*}", handler)
    server = TestServer(app)
    await server.start_server()
    return server


async def test_prove__prover_answers__gives_its_json(session: aiohttp.ClientSession) -> None:
    seen: list[tuple[str, Any]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.path, await request.json()))
        return web.json_response({"ar": []})

    server = await server_of(answer)
    assert await prove(session, str(server.make_url("/")), {"circuitType": "inclusion"}) == {"ar": []}
    assert seen == [("/prove", {"circuitType": "inclusion"})]
    await server.close()


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (400, "{}", "Internal server error: the prover refused the proof with status 400"),
        (200, "no json", "Internal server error: the answer of the prover is not a proof"),
    ],
)
async def test_prove__prover_fails__is_reported_without_its_words(
    session: aiohttp.ClientSession, status: int, body: str, message: str
) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, text=body)

    server = await server_of(answer)
    with pytest.raises(RpcError) as refused:
        await prove(session, str(server.make_url("/")), {})
    assert refused.value.message == message
    await server.close()


async def test_prove__prover_down__is_the_documented_error(session: aiohttp.ClientSession) -> None:
    with pytest.raises(RpcError) as refused:
        await prove(session, f"http://127.0.0.1:{unused_port()}", {})
    assert (refused.value.code, refused.value.message) == (
        -32000,
        "Internal server error: the prover cannot be reached",
    )
