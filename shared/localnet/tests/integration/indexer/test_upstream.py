"""Calls of the prover and of the node over real sockets, and what becomes of their failures."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from localnet.indexer.api.upstream import HttpNode, HttpProver
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
    seen: list[tuple[str, Any, str]] = []

    async def prove(request: web.Request) -> web.Response:
        seen.append((request.path, await request.json(), request.headers.get("Authorization", "")))
        return web.json_response({"ar": []})

    server = await server_of(prove)
    prover = HttpProver(session, str(server.make_url("/")), "secret")
    assert await prover.prove({"circuitType": "inclusion"}) == {"ar": []}
    assert seen == [("/prove", {"circuitType": "inclusion"}, "Bearer secret")]
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
    async def prove(_: web.Request) -> web.Response:
        return web.Response(status=status, text=body)

    server = await server_of(prove)
    with pytest.raises(RpcError) as refused:
        await HttpProver(session, str(server.make_url("/"))).prove({})
    assert refused.value.message == message
    await server.close()


async def test_prove__prover_down__is_the_documented_error(session: aiohttp.ClientSession) -> None:
    with pytest.raises(RpcError) as refused:
        await HttpProver(session, f"http://127.0.0.1:{unused_port()}").prove({})
    assert (refused.value.code, refused.value.message) == (
        -32000,
        "Internal server error: the prover cannot be reached",
    )


async def test_node__answers__are_unwrapped(session: aiohttp.ClientSession) -> None:
    results = {"getSlot": 7, "getAccountInfo": {"value": {"lamports": 1}}, "getTransaction": None}

    async def call(request: web.Request) -> web.Response:
        return web.json_response({"jsonrpc": "2.0", "id": 1, "result": results[(await request.json())["method"]]})

    server = await server_of(call)
    node = HttpNode(session, str(server.make_url("/")))
    assert await node.slot() == 7
    assert await node.account("x") == {"lamports": 1}
    assert await node.transaction("x") is None
    await server.close()


async def test_node__down_or_refusing__is_an_internal_error(session: aiohttp.ClientSession) -> None:
    async def call(_: web.Request) -> web.Response:
        return web.json_response({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "no"}})

    server = await server_of(call)
    for url in (str(server.make_url("/")), f"http://127.0.0.1:{unused_port()}"):
        with pytest.raises(RpcError, match="the node did not answer"):
            await HttpNode(session, url).slot()
    await server.close()
