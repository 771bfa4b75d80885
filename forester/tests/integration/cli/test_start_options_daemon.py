"""Options of `forester start` about clock, subscriptions, discovery and queues, in a daemon of this process."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from chain_accounts import TreeAccount
from registry_rules import PHASES
from scripted_node import serving
from start_options import NEEDED, NOWHERE, Network, Pauses, chosen, until

from forester.chain.tree_metadata import TreeKind, TreeMetadata, decode_tree_metadata
from forester.daemon import daemon as daemon_module
from forester.daemon.daemon import Daemon
from forester.daemon.live_epochs import LiveEpoch
from forester.daemon.services import open_services
from forester.daemon.trees.tasks import TreeTasks
from forester.observability.health import HealthBoard
from forester.observability.metrics import Metrics
from forester.scheduling.eligibility_window import EligibilityWindow, ProcessingResult
from forester.scheduling.tree_schedule import Share
from shared.process.shutdown import Shutdown

LISTINGS = 3
"""Calls of a look for trees: one for each kind of account."""


@contextlib.asynccontextmanager
async def made(folder: Path, node: Network, *words: str) -> AsyncIterator[Daemon]:
    """A daemon as `forester start` makes it."""
    fixed = ("--rpc-url", node.url, "--indexer-url", NOWHERE, "--prover-url", NOWHERE)
    settings = chosen(*fixed, "--journal", str(folder / "journal"), *NEEDED, *words)
    async with open_services(settings, Metrics()) as services:
        yield Daemon(services, HealthBoard())


@contextlib.asynccontextmanager
async def running(folder: Path, node: Network, *words: str) -> AsyncIterator[Daemon]:
    """A daemon at work."""
    shutdown = Shutdown()
    async with made(folder, node, *words) as daemon:
        task = asyncio.create_task(daemon.run(shutdown))
        try:
            yield daemon
        finally:
            shutdown.request()
            await asyncio.wait_for(task, 120)


@pytest.mark.parametrize("interval_s", [17, 23])
async def test_slot_update_interval__without_a_websocket__is_the_time_between_two_readings(
    interval_s: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Network()
    async with serving(node):
        pauses = Pauses.kept(monkeypatch)
        async with running(tmp_path, node, "--slot-update-interval-seconds", str(interval_s)):
            await until(lambda: pauses.slept.count(interval_s) >= 2 and node.counted["getSlot"] >= 2)
    assert 40 - interval_s not in pauses.slept


async def test_tree_discovery_interval__of_a_second_or_never__is_how_often_trees_are_looked_for(tmp_path: Path) -> None:
    often, once = Network(), Network()
    option = "--tree-discovery-interval-seconds"
    async with (
        serving(often, once),
        running(tmp_path / "a", often, option, "1"),
        running(tmp_path / "b", once, option, "0"),
    ):
        looks = "getProgramAccounts"
        await until(lambda: often.counted[looks] >= 3 * LISTINGS and once.counted[looks] >= LISTINGS)
        assert once.counted[looks] == LISTINGS


class WebSocket:
    """Accepts every subscription, and sends nothing, or closes the connection."""

    def __init__(self, *, closes: bool = False) -> None:
        self.subscribed: Counter[str] = Counter()
        self.closes = closes

    async def handle(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            body = message.json()
            self.subscribed[body["method"]] += 1
            await socket.send_json({"jsonrpc": "2.0", "id": body["id"], "result": self.subscribed.total()})
            if self.closes and body["method"] == "accountSubscribe":  # the last one
                break
        return socket

    @contextlib.asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        """Its URL."""
        app = web.Application()
        app.router.add_get("/ws", self.handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield f"ws://127.0.0.1:{runner.addresses[0][1]}/ws"
        finally:
            await runner.cleanup()


async def test_ws_rpc_url__given__is_where_slots_trees_and_epochs_are_subscribed_to(tmp_path: Path) -> None:
    socket, node = WebSocket(), Network()
    async with socket.served() as url, serving(node), running(tmp_path, node, "--ws-rpc-url", url):
        expected = {"slotSubscribe": 1, "programSubscribe": 6, "accountSubscribe": 1}
        await until(lambda: socket.subscribed == expected)


async def test_ws_rpc_url__closes_after_each_subscription__causes_few_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acted: list[int] = []
    socket, node = WebSocket(closes=True), Network()
    monkeypatch.setattr(TreeTasks, "all_changed", lambda _: acted.append(socket.subscribed["accountSubscribe"]))
    async with socket.served() as url, serving(node), running(tmp_path, node, "--ws-rpc-url", url):
        await until(lambda: socket.subscribed["accountSubscribe"] >= 3)
    assert len(acted) == 1


class IdleProcessor:
    """Finds nothing to do, and counts how often it was asked."""

    def __init__(self) -> None:
        self.rounds = 0

    async def work(self, _: EligibilityWindow) -> ProcessingResult:
        self.rounds += 1
        return ProcessingResult()

    async def prepare(self, _: EligibilityWindow) -> None:
        """Prepare nothing."""

    async def close(self, _: float) -> None:
        """Keep nothing."""


def tree() -> TreeMetadata:
    account = TreeAccount(TreeKind.STATE_V2, 1)
    return decode_tree_metadata(account.address, account.accounts()[0].data)


async def test_queue_poll_interval__of_an_idle_tree__is_how_soon_it_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Network()
    async with serving(node), contextlib.AsyncExitStack() as stack:
        processors = {}
        for name, seconds in (("often", "1"), ("seldom", "3600")):
            processors[name] = processor = IdleProcessor()
            monkeypatch.setattr(daemon_module, "make_processor", lambda *_, processor=processor: processor)
            daemon: Any = await stack.enter_async_context(
                made(tmp_path / name, node, "--queue-poll-interval-seconds", seconds)
            )
            daemon._clock.read(PHASES.active.first)
            daemon._shares.publish(PHASES.epoch, LiveEpoch(PHASES, Share(0, 1, 1)))
            stack.push_async_callback(daemon._supervisor.stop, 60)
            daemon._trees.set_trees({tree().address: tree()})
        await until(lambda: processors["often"].rounds >= 3 and processors["seldom"].rounds >= 1)
        assert processors["seldom"].rounds == 1
