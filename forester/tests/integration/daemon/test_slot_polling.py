"""Slots that the daemon polls from nodes behind real sockets."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from scripted_node import ScriptedNode, result, serving, status

from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RetryPolicy, RpcPool
from forester.daemon import clock as clock_module
from forester.daemon.clock import STUCK_S, SlotClock, poll_slots


@dataclass
class Time:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_poll_slots__failures_between__reads_on() -> None:
    node = ScriptedNode(script=[status(500), result(7), status(429), result("x")], usual=result(9))
    clock = SlotClock(silence_s=1)
    async with serving(node), RpcPool([node.url], retry=RetryPolicy(0)) as pool:
        task = asyncio.create_task(poll_slots(clock, RpcClient(pool), 0.01))
        async with asyncio.timeout(60):
            await clock.reach(9)
        task.cancel()
        await asyncio.wait([task])
    assert task.cancelled()


async def test_poll_slots__first_answer_was_wrong__is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_module, "STUCK_S", 0.1)
    later = (result(500 + reading // 10) for reading in range(1000))
    node = ScriptedNode(script=[result(10_000_000), *later], usual=result(600))
    clock = SlotClock(silence_s=0.02)
    async with serving(node), RpcPool([node.url], retry=RetryPolicy(0)) as pool:
        task = asyncio.create_task(poll_slots(clock, RpcClient(pool), 0.01))
        await asyncio.wait_for(clock.went_back.wait(), 60)
        task.cancel()
        await asyncio.wait([task])
    assert 10**7 - 600 <= clock.went_back_by <= 10**7 - 500


async def test_poll_slots__node_stalls__is_left_for_the_fallback() -> None:
    time = Time()
    first, second = ScriptedNode(usual=result(500)), ScriptedNode(usual=result(900))
    clock = SlotClock(silence_s=1, now=lambda: time.now)
    async with serving(first, second), RpcPool([first.url, second.url], retry=RetryPolicy(0)) as pool:
        task = asyncio.create_task(poll_slots(clock, RpcClient(pool), 0.01))
        async with asyncio.timeout(60):
            while len(first.asked) < 3:  # noqa: ASYNC110 - what is played has no events
                await asyncio.sleep(0.01)
            assert (clock.stuck_s, pool.on_fallback) == (0.0, False)
            time.now += STUCK_S + 1
            await clock.reach(900)
        assert pool.on_fallback
        task.cancel()
        await asyncio.wait([task])
    assert clock.stuck_s == 0.0
