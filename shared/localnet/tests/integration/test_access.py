"""Requests that a web page makes a browser send: to a rebound name, from its own origin, without a preflight."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest
from aiohttp import web
from chains import funded, simulated_artefacts
from indexer_service import FakeNode, FakeProver

from localnet.access import ANY_ORIGIN, LOOPBACK_ONLY, AccessRules
from localnet.chain.network import Network
from localnet.indexer.api.server import make_app as make_indexer
from localnet.indexer.api.service import Service
from localnet.indexer.database.store import Store
from localnet.prover import proxy, simulated
from localnet.prover.faults import ProverFaults
from localnet.rpc.server import make_app as make_rpc
from localnet.rpc.server import serving

SERVERS = ("rpc", "indexer", "simulated-prover", "prover-proxy")
WITH_CORS = ("rpc", "indexer")
JSON = {"Content-Type": "application/json"}
ADVANCE = b'{"jsonrpc":"2.0","id":1,"method":"localnet_advance"}'
DAPP = "http://localhost:3000"


@pytest.fixture(scope="module")
def network() -> Network:
    return funded(simulated_artefacts())


@pytest.fixture
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with contextlib.closing(Store(tmp_path_factory.mktemp("store") / "indexer.sqlite", durable=False)) as opened:
        yield opened


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


class Servers:
    """Starts each server of the network by its name."""

    def __init__(self, network: Network, store: Store, http: aiohttp.ClientSession) -> None:
        self.network = network
        self.http = http
        self._store = store

    @contextlib.asynccontextmanager
    async def started(self, server: str, access: AccessRules = LOOPBACK_ONLY) -> AsyncIterator[str]:
        """Yield the URL of a server."""
        async with contextlib.AsyncExitStack() as stack:
            if server == "rpc":
                app = make_rpc(self.network, access)
            elif server == "indexer":
                app = make_indexer(Service(self._store, FakeProver(), FakeNode()), access=access)
            elif server == "simulated-prover":
                app = simulated.make_app(access=access)
            else:
                behind = web.Application()
                behind.router.add_route("*", "/{path:.*}", _answer)
                [port] = await stack.enter_async_context(serving(behind, "127.0.0.1", 0))
                app = proxy.make_app(f"http://127.0.0.1:{port}", ProverFaults(), access)
            [port] = await stack.enter_async_context(serving(app, "127.0.0.1", 0))
            yield f"http://127.0.0.1:{port}"

    async def status(self, url: str, **headers: str) -> int:
        """Return the status of a POST to a server's path for calls."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        call = self.http.post(f"{url}/prove", data=ADVANCE, headers=given, skip_auto_headers=("Content-Type",))
        async with call as response:
            return response.status


async def _answer(_request: web.Request) -> web.Response:
    return web.Response(body=b"{}", content_type="application/json")


@pytest.fixture
async def servers(network: Network, store: Store) -> AsyncIterator[Servers]:
    async with aiohttp.ClientSession() as http:
        yield Servers(network, store, http)


HONEST = {"rpc": 200, "indexer": 200, "simulated-prover": 400, "prover-proxy": 200}
"""The simulated prover reads a body that is no request for a proof."""


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""]
)
async def test_post__type_that_browsers_send_to_any_site__is_refused(
    servers: Servers, server: str, content_type: str
) -> None:
    before = servers.network.slot
    async with servers.started(server) as url:
        given = {"Content_Type": content_type} if content_type else {}
        assert await servers.status(url, **given) == 415
        async with servers.http.post(f"{url}/prove", data=b"{}") as response:
            assert "Content-Type: application/json" in await response.text()
        assert await servers.status(url, Content_Type="application/json; charset=utf-8") == HONEST[server]
    assert servers.network.slot == before + (server == "rpc")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8899", "localhost.evil.example", "127.0.0.1.evil.example"]
)
async def test_post__name_rebound_to_this_machine__is_refused(servers: Servers, server: str, host: str) -> None:
    before = servers.network.slot
    async with servers.started(server) as url:
        assert await servers.status(url, Content_Type="application/json", Host=host) == 403
    assert servers.network.slot == before


@pytest.mark.parametrize("host", ["localhost:8899", "app.localhost", "127.0.0.1", "[::1]:8899", "192.168.1.7:8899"])
async def test_post__this_machine_by_name_or_address__is_answered(servers: Servers, server: str, host: str) -> None:
    async with servers.started(server) as url:
        assert await servers.status(url, Content_Type="application/json", Host=host) == HONEST[server]


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "http://localhost.evil.example",
        "http://localhost:1@evil.example",
        "file://localhost",
    ],
)
async def test_post__page_of_another_site__is_refused(servers: Servers, server: str, origin: str) -> None:
    before = servers.network.slot
    async with servers.started(server) as url:
        assert await servers.status(url, Content_Type="application/json", Origin=origin) == 403
        preflight = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        async with servers.http.options(f"{url}/prove", headers=preflight) as response:
            assert response.status == 403
            assert "Access-Control-Allow-Origin" not in response.headers
    assert servers.network.slot == before


@pytest.mark.parametrize("server", WITH_CORS)
async def test_dapp__on_this_machine__may_send_and_read(servers: Servers, server: str) -> None:
    async with servers.started(server) as url:
        async with servers.http.options(url, headers={"Origin": DAPP}) as response:
            assert response.status == 200
            assert response.headers["Access-Control-Allow-Headers"] == "Content-Type, solana-client"
        async with servers.http.post(url, data=ADVANCE, headers={**JSON, "Origin": DAPP}) as response:
            assert (response.status, response.headers["Access-Control-Allow-Origin"]) == (200, DAPP)
            assert response.headers["Vary"] == "Origin"
        async with servers.http.post(url, data=ADVANCE, headers=JSON) as response:
            assert "Access-Control-Allow-Origin" not in response.headers


@pytest.mark.parametrize("server", WITH_CORS)
@pytest.mark.parametrize(("allowed", "shown"), [("https://dapp.example", "https://dapp.example"), (ANY_ORIGIN, "*")])
async def test_origin__that_was_allowed__may_send_and_read(
    servers: Servers, server: str, allowed: str, shown: str
) -> None:
    async with servers.started(server, AccessRules(origins=frozenset({allowed}))) as url:
        headers = {**JSON, "Origin": "https://dapp.example"}
        async with servers.http.post(url, data=ADVANCE, headers=headers) as response:
            assert (response.status, response.headers["Access-Control-Allow-Origin"]) == (200, shown)


async def test_host__that_was_allowed__is_answered(servers: Servers, server: str) -> None:
    async with servers.started(server, AccessRules(frozenset({"localnet"}))) as url:
        assert await servers.status(url, Content_Type="application/json", Host="Localnet:8899") == HONEST[server]


@pytest.mark.parametrize("headers", [{"Origin": "https://evil.example"}, {"Host": "evil.example"}])
async def test_websocket__page_of_another_site__is_refused(servers: Servers, headers: dict[str, str]) -> None:
    async with servers.started("rpc") as url:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await servers.http.ws_connect(url, headers=headers)
        assert refused.value.status == 403
        async with servers.http.ws_connect(url, headers={"Origin": DAPP}) as websocket:
            await websocket.send_str('{"jsonrpc":"2.0","id":2,"method":"slotSubscribe"}')
            assert (await websocket.receive_json())["id"] == 2
