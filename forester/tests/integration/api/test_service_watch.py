"""Indexer and provers that stay unreachable are reported to the board, and so is their return; a restart is not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from scripted_node import serving
from start_options import NOWHERE, Network, chosen, until

from forester.api.service_watch import ServiceWatch, service_checks
from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RetryPolicy, RpcPool
from forester.checks.services import LAG_LIMIT_SLOTS, check_prover
from forester.errors import EndpointUnreachable
from forester.observability.health import HealthBoard, Severity

SLOT = 5000


class Services:
    """An indexer and a prover; the indexer is at ``slot``, the prover answers /health with ``status``.

    The indexer calls itself unhealthy while ``behind``.
    """

    def __init__(self) -> None:
        self.slot = SLOT
        self.behind = False
        self.status = 200
        self.keys: list[str | None] = []

    async def indexer(self, request: web.Request) -> web.Response:
        asked = json.loads(await request.read())
        if self.behind and asked["method"] == "getIndexerHealth":
            error = {"code": -32000, "message": "Node is behind 900 slots"}
            return web.json_response({"jsonrpc": "2.0", "id": asked["id"], "error": error})
        result = {"getIndexerHealth": "ok", "getIndexerSlot": self.slot}[asked["method"]]
        return web.json_response({"jsonrpc": "2.0", "id": asked["id"], "result": result})

    async def health(self, request: web.Request) -> web.Response:
        self.keys.append(request.query.get("api-key"))
        return web.json_response({"status": "ok"}, status=self.status)


@asynccontextmanager
async def served(services: Services) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/health", services.health)
    app.router.add_post("/{tail:.*}", services.indexer)
    async with TestServer(app) as server:
        yield str(server.make_url("/")).rstrip("/")


def reported(board: HealthBoard) -> dict[str, str]:
    return {problem.condition: problem.reason for problem in board.problems}


async def test_watch__services_fail_and_recover__are_reported_after_two_checks_and_cleared() -> None:
    services, board, node = Services(), HealthBoard(), Network(height=SLOT)
    async with served(services) as url, serving(node), RpcPool([node.url]) as pool:
        settings = chosen("--indexer-url", url, "--prover-url", url)
        watch = ServiceWatch(board, service_checks(settings, RpcClient(pool)))
        await watch.check()
        assert not board.problems
        services.slot, services.status = SLOT - LAG_LIMIT_SLOTS - 1, 500
        await watch.check()
        assert not board.problems, "once may be a restart"
        await watch.check()
        assert reported(board).keys() == {"indexer", "prover"}
        assert f"{LAG_LIMIT_SLOTS + 1} slots behind" in reported(board)["indexer"]
        assert "answered /health with 500" in reported(board)["prover"]
        assert {problem.severity for problem in board.problems} == {Severity.ERROR}
        services.slot, services.status = SLOT, 200
        await watch.check()
        assert not board.problems


@pytest.mark.parametrize("end", ["?api-key=x", "/?api-key=x", "", "/"])
async def test_check_prover__base_with_or_without_a_key_in_its_query__is_asked_below_its_path(end: str) -> None:
    services = Services()
    async with served(services) as url:
        assert await check_prover([url + end], None) == f"{url}{end.replace('=x', '=***')} healthy"
    assert services.keys == ["x" if "key" in end else None]


async def test_check_prover__address_that_is_none__is_reported_as_unreachable() -> None:
    with pytest.raises(EndpointUnreachable, match="cannot be reached"):
        await check_prover(["http://host:99999"], None)


async def test_watch__second_indexer_or_no_node__is_no_fault_of_the_first_indexer() -> None:
    services, board, node = Services(), HealthBoard(), Network(height=SLOT)
    async with served(services) as url, serving(node):
        settings = chosen("--indexer-url", NOWHERE, "--fallback-indexer-url", url, "--processor-mode", "v1")
        async with RpcPool([node.url]) as pool:
            watch = ServiceWatch(board, service_checks(settings, RpcClient(pool)))
            for _ in range(3):
                await watch.check()
        assert not board.problems
        settings = chosen("--indexer-url", NOWHERE)
        async with RpcPool([NOWHERE], retry=RetryPolicy(0)) as pool:
            watch = ServiceWatch(board, service_checks(settings, RpcClient(pool)))
            for _ in range(3):
                await watch.check()
        assert not board.problems


@pytest.mark.parametrize(("mode", "reported_names"), [("v1", {"indexer"}), ("all", {"indexer"}), ("v2", set())])
@pytest.mark.parametrize("says_so", [True, False])
async def test_watch__first_indexer_stalls_next_to_a_good_second__is_reported_unless_all_rounds_leave_it(
    mode: str, reported_names: set[str], says_so: bool
) -> None:
    first, second, board, node = Services(), Services(), HealthBoard(), Network(height=SLOT)
    first.slot, first.behind = SLOT - LAG_LIMIT_SLOTS - 1, says_so
    async with served(first) as url, served(second) as fallback, serving(node), RpcPool([node.url]) as pool:
        settings = chosen("--indexer-url", url, "--fallback-indexer-url", fallback, "--processor-mode", mode)
        watch = ServiceWatch(board, service_checks(settings, RpcClient(pool)))
        for _ in range(2):
            await watch.check()
        assert reported(board).keys() == reported_names
        first.slot, first.behind = SLOT, False
        await watch.check()
        assert not board.problems


async def test_watch__running__reports_one_that_hangs_and_continues() -> None:
    board, asked = HealthBoard(), 0

    async def hangs() -> None:
        await asyncio.Event().wait()

    async def fails_twice() -> None:
        nonlocal asked
        asked += 1
        if asked <= 2:
            raise EndpointUnreachable("nobody there")

    checks = {"prover": hangs, "indexer": fails_twice}
    running = asyncio.create_task(ServiceWatch(board, checks, every_s=0.01, limit_s=0.05).run())
    await until(lambda: asked > 3 and reported(board).keys() == {"prover"})
    running.cancel()
    await asyncio.wait([running])
    assert reported(board) == {"prover": "prover: no answer within 0.05 s"}


def test_looks__of_settings__are_those_that_are_needed() -> None:
    client = RpcClient(RpcPool([NOWHERE]))
    provers = ("--prover-append-url", NOWHERE, "--prover-update-url", NOWHERE)
    for words, names in (
        ((), set()),
        (("--indexer-url", NOWHERE), {"indexer"}),
        (("--prover-url", NOWHERE), {"prover"}),
        (("--prover-url", NOWHERE, "--processor-mode", "v1"), set()),
        (provers, set()),
        ((*provers, "--prover-address-append-url", NOWHERE), {"prover"}),
    ):
        assert service_checks(chosen(*words), client).keys() == names
