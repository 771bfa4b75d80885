"""The monitoring API over the published programs in localnet: what it tells, and what it costs the node."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import aiohttp
import pytest
from click.testing import CliRunner
from localnet_process import Localnet, running_localnet

from forester.api.app import serving_api
from forester.api.routes import Monitoring
from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RpcPool
from forester.cli.main import cli
from forester.network_status.fitness import show_fitness
from forester.network_status.snapshot import V1_QUEUES_PER_REFRESH, SnapshotKeeper, reading
from forester.network_status.symptoms import show_progress
from forester.observability.health import HealthBoard
from forester.observability.metrics import Metrics
from forester.observability.progress import ProgressWatch
from forester.settings import Settings

LATE_REGISTRATION = 470
"""In the second half of the registration phase of epoch 2: nobody has registered, and should have."""

REFRESHES = 3
REQUESTS = 50


def test_api__over_a_network__tells_what_the_command_does_and_asks_the_node_only_in_the_background(
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
        told = CliRunner().invoke(cli, ["status", "--output", "json"], env=net.environment)
        assert told.exit_code == 0, told.output
        expected = json.loads(told.output)
        del expected["protocol_config"]
        monkeypatch.setattr(RpcPool, "call", counting)
        asyncio.run(_look(net, expected, calls))


async def _look(net: Localnet, expected: dict[str, Any], calls: Counter[str]) -> None:
    me = net.keys["forester"].pubkey()
    metrics, board = Metrics(), HealthBoard()
    watch = ProgressWatch(metrics, board)
    async with RpcPool([net.url]) as pool:
        keeper = SnapshotKeeper(reading(RpcClient(pool), me), metrics, board)
        keeper.subscribe(lambda state: show_fitness(board, state, payer=me, derivation=me))
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
    watch.look()
    assert f'forester_sol_balance{{pubkey="{me}"}}' in text
    assert text.count("\nforester_seconds_since_progress{") == trees
