"""Tasks that fail, and tasks that have to end."""

from __future__ import annotations

import asyncio

import pytest

from forester.daemon.supervisor import Supervisor
from forester.errors import EndpointTimedOut
from forester.waiting import first_of
from shared.process.retries import Backoff

QUICK = Backoff(0.001, 0.002)


async def test_supervisor__tasks_fail__are_started_again_and_touch_no_other() -> None:
    reported: list[tuple[str, int, str]] = []
    supervisor = Supervisor(failed=lambda *facts: reported.append(facts), backoff=QUICK)
    errors: list[Exception] = [EndpointTimedOut("slow node"), ZeroDivisionError("a bug"), KeyError()]
    done = asyncio.Event()

    async def failing() -> None:
        if errors:
            raise errors.pop(0)
        done.set()

    supervisor.start("calm", supervisor.stopping.wait, drains=True)
    supervisor.start("tree", failing, name="tree 1")
    with pytest.raises(ValueError, match="tree 1"):
        supervisor.start("tree", failing, name="tree 1")
    await asyncio.wait_for(done.wait(), 60)
    await asyncio.sleep(0)
    assert reported == [("tree", 1, "slow node"), ("tree", 2, "a bug"), ("tree", 3, "KeyError")]
    assert supervisor.restarts.labels("tree")._value.get() == 3
    assert supervisor.names == {"calm"}
    assert await supervisor.stop(60)
    supervisor.start("late", failing)
    assert supervisor.names == frozenset()


async def test_stop__some_do_not_end__cancels_them_after_the_deadline_and_others_at_once() -> None:
    supervisor = Supervisor()
    ended: list[str] = []

    async def polite() -> None:
        await supervisor.stopping.wait()
        ended.append("polite")

    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("stubborn")

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("endless")

    supervisor.start("polite", polite, drains=True)
    supervisor.start("stubborn", stubborn, drains=True)
    supervisor.start("endless", endless)
    await asyncio.sleep(0)
    assert not await supervisor.stop(0.05)
    assert sorted(ended[:2]) == ["endless", "polite"]
    assert ended[2] == "stubborn"


async def test_stop__task_is_between_two_attempts__ends_at_once() -> None:
    supervisor = Supervisor(backoff=Backoff(600, 600))
    failed = asyncio.Event()

    async def failing() -> None:
        failed.set()
        raise EndpointTimedOut

    supervisor.start("tree", failing, drains=True)
    await asyncio.wait_for(failed.wait(), 60)
    assert await supervisor.stop(60)


async def test_first_of__several_waits__ends_with_the_first_cancels_the_rest_and_raises_its_error() -> None:
    cancelled: list[bool] = []

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def failing() -> None:
        raise EndpointTimedOut("first")

    await asyncio.wait_for(first_of(endless(), asyncio.sleep(0)), 60)
    await first_of(endless(), timeout_s=0.01)
    with pytest.raises(EndpointTimedOut, match="first"):
        await first_of(endless(), failing())
    assert len(cancelled) >= 2
