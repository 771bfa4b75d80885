"""Calls that a forester makes on a local network, counted by a proxy in front of node, indexer and prover."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer
from localnet_process import Localnet, running_localnet

from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RpcPool
from forester.network_status.reader import read_network

SLOT_MS = 400
LIGHT_SLOT_S = 10 * SLOT_MS / 1000
FIRST, ACTIVE = 655, 700
"""Late in the registration phase of epoch 3 (18 s before its end), and its active phase, as localnet has them."""
SEED = {"compress": 25, "spend": 12, "addresses": 22}
ACTIVE_S = 90.0


@dataclass(frozen=True)
class CallRates:
    """Calls per light slot, those of the node by method too, the most frequent first; ``leaves`` of V2 trees made."""

    name: str
    light_slots: float
    leaves: int
    rpc: float
    indexer: float
    prover: float
    rpc_by_method: dict[str, float]


class CountingProxy:
    """Proxy that forwards calls and counts them by service and method."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self.counts: Counter[tuple[str, str]] = Counter()

    @asynccontextmanager
    async def before(self, name: str, url: str) -> AsyncIterator[str]:
        """Yield the URL of a proxy for one service."""

        async def pass_on(request: web.Request) -> web.Response:
            body = await request.read()
            call = await request.json() if body and name != "prover" else {}
            self.counts[name, call.get("method", request.path)] += 1
            target = f"{url.rstrip('/')}{request.rel_url}"
            async with self._session.request(request.method, target, data=body, headers=_typed(request)) as answer:
                return web.Response(status=answer.status, body=await answer.read(), content_type=answer.content_type)

        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{path:.*}", pass_on)
        async with TestServer(app) as server:
            yield str(server.make_url("")).rstrip("/")


def _typed(request: web.Request) -> dict[str, str]:
    return {"Content-Type": request.content_type}


async def count_calls(seconds: float) -> list[CallRates]:
    """Return the rates of an idle and of a busy forester, ``seconds`` each, in the active phase of one epoch."""
    with running_localnet("--slot-ms", str(SLOT_MS), "--first-slot", str(FIRST)) as net:
        async with aiohttp.ClientSession() as session:
            proxy, urls = CountingProxy(session), net.environment
            async with (
                proxy.before("rpc", urls["RPC_URL"]) as rpc,
                proxy.before("indexer", urls["INDEXER_URL"]) as indexer,
                proxy.before("prover", urls["PROVER_URL"]) as prover,
            ):
                proxies = {"RPC_URL": rpc, "INDEXER_URL": indexer, "PROVER_URL": prover}
                return await _count(net, proxy, urls | proxies, seconds)


async def _count(net: Localnet, proxy: CountingProxy, environment: dict[str, str], seconds: float) -> list[CallRates]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    kept = {name: value for name, value in environment.items() if name != "WS_RPC_URL"}
    with tempfile.TemporaryDirectory() as folder:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "forester", "start"),
            env=inherited | kept | {"JOURNAL_PATH": str(Path(folder) / "journal.sqlite")},
            cwd=folder,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            await _active(net, proxy)
            idle = await _rates("idle", net, proxy, seconds)
            await asyncio.to_thread(net.call, "localnet_seed", SEED)
            return [idle, await _rates("busy", net, proxy, seconds)]
        finally:
            process.terminate()
            await process.wait()


async def _active(net: Localnet, proxy: CountingProxy) -> None:
    """Wait until the active phase has begun and the registration is final."""
    async with asyncio.timeout(ACTIVE_S):
        while await asyncio.to_thread(net.call, "getSlot") < ACTIVE:  # noqa: ASYNC110 - so does the network
            await asyncio.sleep(LIGHT_SLOT_S / 10)
        while proxy.counts["rpc", "sendTransaction"] < 2:  # noqa: ASYNC110 - it is another process that sends
            await asyncio.sleep(LIGHT_SLOT_S / 10)
        await asyncio.sleep(LIGHT_SLOT_S)


async def _rates(name: str, net: Localnet, proxy: CountingProxy, seconds: float) -> CallRates:
    leaves = await _leaves(net)
    before, began = proxy.counts.copy(), time.monotonic()
    await asyncio.sleep(seconds)
    made, slots = proxy.counts - before, (time.monotonic() - began) / LIGHT_SLOT_S
    by_method = {method: count / slots for (service, method), count in made.most_common() if service == "rpc"}
    indexer, prover = (
        sum(count for (service, _), count in made.items() if service == wanted) / slots
        for wanted in ("indexer", "prover")
    )
    made_leaves = await _leaves(net) - leaves
    return CallRates(name, slots, made_leaves, sum(by_method.values()), indexer, prover, by_method)


async def _leaves(net: Localnet) -> int:
    """Return the leaves of all V2 trees."""
    async with RpcPool([net.url]) as pool:
        state = await read_network(RpcClient(pool), all_epochs=True)
    return sum(item.head.next_index for item in state.trees if item.kind.is_batched)
