"""Calls that pass on to a prover of its own process over real sockets, and the faults that the network shows of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import unused_port
from yarl import URL

from localnet.indexer.api.upstream import prove
from localnet.json_rpc import RpcError
from localnet.prover.faults import ProverFaults
from localnet.prover.proxy import make_app
from localnet.rpc.server import serving

JSON = {"Content-Type": "application/json"}


@dataclass
class Upstream:
    """A prover that notes its calls."""

    calls: list[tuple[str, str, bytes, str]] = field(default_factory=list)
    held: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.calls.append((request.method, request.raw_path, body, request.headers.get("Authorization", "")))
        if request.path == "/part":
            response = web.StreamResponse(headers={"Content-Length": "8"})
            await response.prepare(request)
            await response.write(b"half")
            await self.held.wait()
            await response.write(b"full")
            return response
        status = 400 if b"bad" in body else 200
        return web.Response(status=status, body=b"{}", content_type="application/json", headers={"X-Request-Id": "7"})


@dataclass
class RunningProxy:
    url: str
    upstream: Upstream
    faults: ProverFaults
    http: aiohttp.ClientSession


@pytest.fixture
async def proxy() -> AsyncIterator[RunningProxy]:
    upstream, faults = Upstream(), ProverFaults()
    app = web.Application(client_max_size=8 << 20)
    app.router.add_route("*", "/{path:.*}", upstream.answer)
    async with serving(app, "127.0.0.1", 0) as [port]:
        passing = make_app(f"http://127.0.0.1:{port}/", faults)
        async with serving(passing, "127.0.0.1", 0) as [own], aiohttp.ClientSession() as http:
            yield RunningProxy(f"http://127.0.0.1:{own}", upstream, faults, http)


async def test_call__no_fault__reaches_the_prover_and_its_answer_the_client(proxy: RunningProxy) -> None:
    for body, status in ((b'{"a": 1}', 200), (b"bad", 400)):
        headers = {"Authorization": "Bearer key", "Content-Type": "application/json"}
        async with proxy.http.post(
            URL(f"{proxy.url}/prove?x=%2F", encoded=True), data=body, headers=headers
        ) as response:
            assert (response.status, await response.read()) == (status, b"{}")
            assert response.headers["X-Request-Id"] == "7"
    async with proxy.http.get(f"{proxy.url}/health") as response:
        assert response.status == 200
    assert proxy.upstream.calls == [
        ("POST", "/prove?x=%2F", b'{"a": 1}', "Bearer key"),
        ("POST", "/prove?x=%2F", b"bad", "Bearer key"),
        ("GET", "/health", b"", ""),
    ]


async def test_call__large_body_in_parts__arrives_whole(proxy: RunningProxy) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield bytes(100_000)

    async with proxy.http.post(f"{proxy.url}/prove", data=parts(), headers=JSON) as response:
        assert response.status == 200
    assert len(proxy.upstream.calls[0][2]) == 4_000_000


async def test_answer__in_parts__is_passed_on_as_it_comes(proxy: RunningProxy) -> None:
    async with proxy.http.get(f"{proxy.url}/part") as response:
        assert await response.content.readexactly(4) == b"half"
        proxy.upstream.held.set()
        assert await response.read() == b"full"


async def test_faults__down__answers_503_until_it_ends(proxy: RunningProxy) -> None:
    proxy.faults.down = True
    async with proxy.http.post(f"{proxy.url}/prove", data=b"{}", headers=JSON) as response:
        assert (response.status, (await response.json())["code"]) == (503, "unavailable")
    assert proxy.upstream.calls == []
    proxy.faults.down = False
    async with proxy.http.post(f"{proxy.url}/prove", data=b"{}", headers=JSON) as response:
        assert response.status == 200


async def test_faults__cut__is_an_unreachable_prover_to_the_indexer(proxy: RunningProxy) -> None:
    proxy.faults.cut = True
    with pytest.raises(RpcError, match="the prover cannot be reached"):
        await prove(proxy.http, proxy.url, {})
    assert proxy.upstream.calls == []
    proxy.faults.cut = False
    assert await prove(proxy.http, proxy.url, {}) == {}


async def test_faults__delay__lets_calls_wait(proxy: RunningProxy) -> None:
    proxy.faults.delay_ms = 300
    clock = asyncio.get_running_loop()
    started = clock.time()
    assert await prove(proxy.http, proxy.url, {}) == {}
    assert clock.time() - started >= 0.3


async def test_call__prover_not_there__is_a_bad_gateway() -> None:
    url = f"http://127.0.0.1:{unused_port()}"
    passing = make_app(url, ProverFaults())
    async with (
        serving(passing, "127.0.0.1", 0) as [own],
        aiohttp.ClientSession() as http,
        http.post(f"http://127.0.0.1:{own}/prove", data=b"{}", headers=JSON) as response,
    ):
        assert response.status == 502
        assert await response.json() == {"code": "unavailable", "message": f"the prover at {url} cannot be reached"}
