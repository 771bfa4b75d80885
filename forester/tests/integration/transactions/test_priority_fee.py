"""Prices of compute units, from settings and from nodes that estimate well, badly or not at all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web
from scripted_node import Answer, ScriptedNode, failure, result, serving, status
from solders.pubkey import Pubkey

from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RetryPolicy, RpcPool
from forester.settings import Settings
from forester.transactions import priority_fee
from forester.transactions.priority_fee import (
    DEFAULT_MICROLAMPORTS,
    KEPT_S,
    PriorityFee,
    usable_price,
)

ACCOUNTS = [Pubkey(bytes([place]) * 32) for place in (1, 2)]
DYNAMIC = Settings(enable_priority_fees=True)


async def priced(settings: Settings, answer: Answer) -> int | None:
    node = ScriptedNode(usual=answer)
    async with serving(node), RpcPool([node.url], retry=RetryPolicy(0)) as pool:
        return await PriorityFee(settings, RpcClient(pool)).price(ACCOUNTS)


async def test_price__off_or_fixed__asks_nobody() -> None:
    assert await priced(Settings(), failure(1, "not asked")) is None
    assert await priced(Settings(priority_fee_microlamports=77), failure(1, "not asked")) == 77


@pytest.mark.parametrize(
    ("answer", "price"),
    [
        (result({"priorityFeeEstimate": 1234.2}), 1235),
        (result({"priorityFeeEstimate": 0}), 0),
        (result({"priorityFeeEstimate": 1_000_001}), 1_000_000),
        (result({"priorityFeeEstimate": 1e30}), 1_000_000),
        (result({"priorityFeeEstimate": -1}), DEFAULT_MICROLAMPORTS),
        (result({}), DEFAULT_MICROLAMPORTS),
        (result("nonsense"), DEFAULT_MICROLAMPORTS),
        (failure(-32601, "Method not found"), DEFAULT_MICROLAMPORTS),
        (status(500), DEFAULT_MICROLAMPORTS),
    ],
)
async def test_price__estimated__is_the_estimate_or_the_fallback(answer: Answer, price: int) -> None:
    assert await priced(DYNAMIC, answer) == price


async def test_price__asked_again__is_kept_for_a_while() -> None:
    now = 0.0
    node = ScriptedNode(usual=result({"priorityFeeEstimate": 5}))
    async with serving(node), RpcPool([node.url]) as pool:
        fee = PriorityFee(DYNAMIC, RpcClient(pool), clock=lambda: now)
        assert [await fee.price(ACCOUNTS) for _ in range(3)] == [5, 5, 5]
        assert len(node.asked) == 1
        now += KEPT_S
        await fee.price(ACCOUNTS)
        await fee.price(ACCOUNTS[:1])
        assert len(node.asked) == 3


async def test_price__node_that_hangs__is_the_fallback_soon_and_then_at_once_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def hang(_: dict[str, Any]) -> web.Response:
        await asyncio.sleep(3600)
        raise AssertionError

    monkeypatch.setattr(priority_fee, "_ESTIMATE_S", 0.1)
    now = 0.0
    node = ScriptedNode(usual=hang)
    async with serving(node), RpcPool([node.url]) as pool:
        fee = PriorityFee(DYNAMIC, RpcClient(pool), clock=lambda: now)
        async with asyncio.timeout(5):
            assert await fee.price(ACCOUNTS) == DEFAULT_MICROLAMPORTS
            assert await fee.price(ACCOUNTS[:1]) == DEFAULT_MICROLAMPORTS
        assert len(node.asked) == 1
        for _ in range(20):
            now += 10.0
            assert await fee.price(ACCOUNTS) == DEFAULT_MICROLAMPORTS
        assert len(node.asked) <= 12, "pauses grow to a minute"
        now, node.usual = now + 60.0, result({"priorityFeeEstimate": 5})
        assert await fee.price(ACCOUNTS) == 5


@pytest.mark.parametrize("estimate", [None, float("nan"), float("inf"), -0.5])
def test_usable_price__of_nonsense__is_the_fallback(estimate: float | None) -> None:
    assert usable_price(estimate, 10**6) == DEFAULT_MICROLAMPORTS
