"""429 of the node and of the indexer: in the log with the remedy, and not once per call.

Source: forester/docs/reference/behaviour.md, "Error messages".
"""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from scripted_node import ScriptedNode, result, serving, status

from forester.chain import rpc_pool
from forester.chain.rpc_pool import RetryPolicy, RpcPool
from forester.indexer import client as indexer_client
from forester.indexer.client import IndexerClient, IndexerTimes
from shared.process.retries import Backoff

FAST = Backoff(0.001, 0.002)


class Log:
    """A log that stores warnings."""

    def __init__(self) -> None:
        self.reported: list[dict[str, Any]] = []

    def warning(self, event: str, **facts: Any) -> None:
        self.reported.append({"event": event} | facts)

    def debug(self, event: str, **facts: Any) -> None:
        """Keep nothing."""


async def test_node__limits_calls__is_reported_with_the_remedy_and_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    log, now = Log(), 0.0
    monkeypatch.setattr(rpc_pool, "_log", log)
    node = ScriptedNode(usual=result(7))
    async with serving(node), RpcPool([node.url], retry=RetryPolicy(9, FAST), clock=lambda: now) as pool:
        for seconds in (0.0, 29.0, 2.0):
            now += seconds
            node.script = [status(429)] * 3
            assert await pool.call("getSlot", [], int) == 7
    assert [line["times"] for line in log.reported] == [1, 6], "the first of three, and those since then"
    assert {line["event"] for line in log.reported} == {"rpc_rate_limited"}
    assert "429 Too Many Requests" in log.reported[0]["error"]
    assert "--rpc-rate-limit and --send-tx-rate-limit" in log.reported[0]["remedy"]


async def test_indexer__limits_calls__is_reported_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    log, answers = Log(), [429, 429, 200]
    monkeypatch.setattr(indexer_client, "_log", log)

    async def handle(_: web.Request) -> web.Response:
        answer = {"jsonrpc": "2.0", "id": "test-account", "result": 5}
        code = answers.pop(0)
        return web.json_response(answer) if code == 200 else web.Response(status=code)

    app = web.Application()
    app.router.add_post("/{anything:.*}", handle)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        client = IndexerClient(session, str(server.make_url("/")), times=IndexerTimes(backoff=FAST))
        assert await client.slot() == 5
    [line] = log.reported
    assert line["event"] == "indexer_rate_limited"
    assert "429 Too Many Requests" in line["error"]
    assert "--photon-rate-limit" in line["remedy"]
