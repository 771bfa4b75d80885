"""Pauses of the event loop."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from forester.loop_pauses import Pacer

MAXIMUM = 20


async def passes(pacer: Pacer, callers: int) -> list[tuple[int, int]]:
    """Let callers pass that come at once; return the iteration of the loop in which each passed."""
    iteration = 0
    done: list[tuple[int, int]] = []
    loop = asyncio.get_running_loop()

    def count() -> None:
        nonlocal iteration
        iteration += 1
        if len(done) < callers:
            loop.call_soon(count)

    async def call(number: int) -> None:
        await pacer.wait()
        done.append((iteration, number))

    loop.call_soon(count)
    await asyncio.gather(*map(call, range(callers)))
    return done


@pytest.mark.parametrize("callers", [1, MAXIMUM, MAXIMUM + 1, 200])
async def test_pacer__many_callers_at_once__pass_in_order_at_most_so_many_an_iteration(callers: int) -> None:
    pacer = Pacer(MAXIMUM)
    for _ in range(2):
        done = await passes(pacer, callers)
        assert [number for _, number in done] == list(range(callers))
        by_iteration = Counter(iteration for iteration, _ in done)
        assert max(by_iteration.values()) <= MAXIMUM
        assert len(by_iteration) <= callers // MAXIMUM + 2


async def test_pacer__callers_that_go_away__delay_no_other() -> None:
    pacer = Pacer(1)
    tasks = [asyncio.create_task(pacer.wait()) for _ in range(100)]
    await asyncio.sleep(0)
    for task in tasks[1:]:
        task.cancel()
    last = asyncio.create_task(pacer.wait())
    for _ in range(6):
        await asyncio.sleep(0)
    assert last.done()
    assert not last.cancelled()
