"""The monitoring API over the published programs in localnet: its answers, and the calls that they cost the node."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from click.testing import CliRunner
from localnet_process import Localnet, running_localnet
from solders.transaction import Transaction

from forester.api.app import serving_api
from forester.api.monitoring import watching
from forester.api.routes import Monitoring
from forester.chain.programs import registry
from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RpcPool
from forester.cli.main import cli
from forester.network_status.fitness import FitnessWatch
from forester.network_status.snapshot import V1_QUEUES_PER_REFRESH, SnapshotKeeper, reading
from forester.network_status.symptoms import show_progress
from forester.observability.health import HealthBoard
from forester.observability.metrics import Metrics
from forester.observability.progress import ProgressWatch
from forester.settings import Settings, load_settings

LATE_REGISTRATION = 470
"""In the second half of the registration phase of epoch 2: nobody has registered, and should have."""

REFRESHES = 3
REQUESTS = 50


def test_api__over_a_network__reports_what_the_command_does_and_asks_the_node_only_in_the_background(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: Counter[str] = Counter()
    real = RpcPool.call

    async def counting(self: RpcPool, method: str, *words: Any, **options: Any) -> Any:
        calls[method] += 1
        return await real(self, method, *words, **options)

    with running_localnet() as net:
        net.call("localnet_seed", {"compress": 12, "addresses": 3, "v1_compress": 2, "v1_spend": 1})
        net.call("localnet_warp", LATE_REGISTRATION)
        net.call("localnet_advance", 3)
        found = CliRunner().invoke(cli, ["status", "--output", "json"], env=net.environment)
        assert found.exit_code == 0, found.output
        expected = json.loads(found.output)
        del expected["protocol_config"]
        monkeypatch.setattr(RpcPool, "call", counting)
        asyncio.run(_look(net, expected, calls))


async def _look(net: Localnet, expected: dict[str, Any], calls: Counter[str]) -> None:
    me = net.keys["forester"].pubkey()
    metrics, board = Metrics(), HealthBoard()
    watch = ProgressWatch(metrics, board)
    async with RpcPool([net.url]) as pool:
        keeper = SnapshotKeeper(reading(RpcClient(pool), me), metrics, board)
        keeper.subscribe(FitnessWatch(board, payer=me, derivation=me).show)
        keeper.subscribe(lambda state: show_progress(watch, state))
        for _ in range(REFRESHES):
            assert await keeper.refresh(), keeper.error
        trees = len(expected["trees"])
        # By refresh: listings of trees, registrations of two epochs at most, V1 queues, one call for each other kind.
        assert calls["getProgramAccounts"] <= REFRESHES * (3 + 2)
        assert calls["getMultipleAccounts"] <= REFRESHES * (4 + min(trees, V1_QUEUES_PER_REFRESH))
        assert calls["getSlot"] == REFRESHES
        before = calls.total()
        state = Monitoring(metrics, board, keeper)
        async with (
            serving_api(Settings(api_server_port=0), state) as address,
            aiohttp.ClientSession() as session,
        ):
            assert address is not None
            url = f"http://127.0.0.1:{address[1]}"
            for _ in range(REQUESTS):
                async with session.get(f"{url}/status") as response:
                    assert await response.json() == expected
            async with session.get(f"{url}/health") as response:
                answer = await response.json()
                assert response.status == 503
                assert [item["condition"] for item in answer["problems"]] == ["registration"]
            async with session.get(f"{url}/metrics") as response:
                text = await response.text()
        assert calls.total() == before, "requests cost the node nothing"
    watch.check()
    assert f'forester_sol_balance{{pubkey="{me}"}}' in text
    assert text.count("\nforester_seconds_since_progress{") == trees


def test_watching__registers_late_and_runs_out_of_money__is_red_until_mended_and_its_incidents_end() -> None:
    with running_localnet() as net:
        net.call("localnet_warp", LATE_REGISTRATION)
        net.call("localnet_advance", 3)
        events = asyncio.run(_register_late(net))
    found = [(event["event_action"], event["dedup_key"].rsplit("/", 1)[1]) for event in events]
    # The first passed check ends incidents that an earlier process may have reported.
    in_order_at_once = {("resolve", "balance"), ("resolve", "snapshot"), ("resolve", "progress")}
    assert set(found[:3]) == in_order_at_once
    assert found[3:] == [
        ("trigger", "registration"),
        ("resolve", "registration"),
        ("trigger", "balance"),
        ("resolve", "balance"),
    ]
    assert "not registered for epoch 2" in events[3]["payload"]["summary"]
    assert "has 0.0020 SOL, less than the minimum" in events[5]["payload"]["summary"]


async def _register_late(net: Localnet) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    pushed = asyncio.Event()

    async def handle(request: web.Request) -> web.Response:
        if request.path == "/push":
            pushed.set()
        else:
            events.append(await request.json())
        return web.Response(status=202)

    app = web.Application()
    app.router.add_post("/{path}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    own = {"PAGERDUTY_ROUTING_KEY": "routing", "PUSH_GATEWAY_URL": f"{url}/push", "API_SERVER_PORT": "0"}
    settings = load_settings(environment=net.environment | own).settings
    try:
        async with RpcPool([net.url]) as pool:
            client = RpcClient(pool)
            async with (
                watching(settings, Metrics(), HealthBoard(), client, events_url=f"{url}/events") as watcher,
                aiohttp.ClientSession() as session,
            ):
                assert watcher.address is not None
                assert watcher.pager is not None
                health = f"http://127.0.0.1:{watcher.address[1]}/health"
                for _ in range(2):
                    await watcher.state.snapshots.refresh()
                assert await watcher.pager.drain(60)
                async with session.get(health) as response:
                    assert response.status == 503
                    assert "not registered for epoch 2" in (await response.json())["reasons"][0]
                await _register(net, client)
                await watcher.state.snapshots.refresh()
                async with session.get(health) as response:
                    assert (response.status, await response.json()) == (200, {"status": "ok"})
                for lamports, code in ((2 * 10**6, 503), (10**9, 200)):
                    _pay(net, lamports)
                    await watcher.state.snapshots.refresh()
                    assert await watcher.pager.drain(60)
                    async with session.get(health) as response:
                        assert response.status == code
                await asyncio.wait_for(pushed.wait(), 60)
    finally:
        await runner.cleanup()
    return events


def _pay(net: Localnet, lamports: int) -> None:
    """Let the forester have so much."""
    account = {"lamports": lamports, "owner": "1" * 32, "data": "", "executable": False}
    net.call("localnet_setAccount", str(net.keys["forester"].pubkey()), account)
    net.call("localnet_advance", 2)


async def _register(net: Localnet, client: RpcClient) -> None:
    key = net.keys["forester"]
    instruction = registry.register_forester_epoch(key.pubkey(), key.pubkey(), key.pubkey(), 2)
    blockhash = await client.latest_blockhash()
    transaction = Transaction.new_signed_with_payer([instruction], key.pubkey(), [key], blockhash.hash)
    await client.send_transaction(bytes(transaction))
    net.call("localnet_advance", 2)
