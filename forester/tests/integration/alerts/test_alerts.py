"""Incident alerts against a service behind a real socket: opened once, ended once, never in the way."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from forester.alerts.events import Origin, dedup_key, resolve, trigger
from forester.alerts.pager import MAXIMUM_WAITING, Pager
from forester.observability.health import HealthBoard, Problem, Severity
from shared.process.retries import Backoff

ROUTING_KEY = "R0UT1NGKEYR0UT1NGKEYR0UT1NGKEY00"
ORIGIN = Origin("Forester1111111111111111111111111111111111", "host-1")
PATIENCE_S = 60


@dataclass
class Service:
    """Takes events; answers with ``answers`` one by one, then 202. Holds them back while ``gate`` is closed."""

    answers: list[int] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    asked: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""

    async def handle(self, request: web.Request) -> web.Response:
        event = await request.json()
        self.asked += 1
        await self.gate.wait()
        status = self.answers.pop(0) if self.answers else 202
        if status == 202:
            self.events.append(event)
        return web.json_response({"status": "x", "message": f"key {ROUTING_KEY}"}, status=status)

    @property
    def sent(self) -> list[str]:
        return [f"{event['event_action']} {event['dedup_key'].rsplit('/', 1)[1]}" for event in self.events]


@contextlib.asynccontextmanager
async def paging(url: str | None = None) -> AsyncIterator[tuple[Service, HealthBoard, Pager]]:
    service, board = Service(), HealthBoard()
    service.gate.set()
    app = web.Application()
    app.router.add_post("/v2/enqueue", service.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    service.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v2/enqueue"
    pager = Pager(ROUTING_KEY, ORIGIN, url=url or service.url, retries=Backoff(0.001, 0.002))
    task = asyncio.create_task(pager.run())
    try:
        yield service, board, pager
    finally:
        task.cancel()
        await asyncio.wait([task])
        service.gate.set()
        await runner.cleanup()


async def asked(service: Service, count: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while service.asked < count:  # noqa: ASYNC110 - requests have no event of their own
            await asyncio.sleep(0.001)


async def test_alerts__problem_comes_and_goes__one_trigger_and_one_resolve_with_the_same_key() -> None:
    async with paging() as (service, board, pager):
        pager.follow(board)
        board.report("funds", "insufficient funds: 0.001 SOL")
        assert await pager.drain(PATIENCE_S)
        for _ in range(5):
            board.report("funds", "insufficient funds: 0.0005 SOL")
        assert await pager.drain(PATIENCE_S)
        board.clear("funds")
        board.clear("funds")
        assert await pager.drain(PATIENCE_S)
        assert service.sent == ["trigger funds", "resolve funds"]
        board.report("funds", "again")
        assert await pager.drain(PATIENCE_S)
        assert service.sent[2:] == ["trigger funds"]
    assert len({event["dedup_key"] for event in service.events}) == 1
    opened = service.events[0]
    assert opened["routing_key"] == ROUTING_KEY
    assert set(opened["payload"]) >= {"summary", "severity", "source"}
    assert (opened["payload"]["severity"], opened["payload"]["source"]) == ("critical", f"Forester {ORIGIN.authority}")
    assert "insufficient funds: 0.001 SOL" in opened["payload"]["summary"]
    assert set(service.events[1]) == {"routing_key", "event_action", "dedup_key"}


async def test_alerts__problem_from_before__is_reported_when_the_board_is_followed() -> None:
    async with paging() as (service, board, pager):
        board.report("registration", "not registered")
        pager.follow(board)
        assert await pager.drain(PATIENCE_S)
        assert service.sent == ["trigger registration"]


async def test_alerts__first_clear_after_a_start__ends_an_incident_of_the_process_before() -> None:
    async with paging() as (service, board, pager):
        pager.follow(board)
        for _ in range(3):
            board.clear("funds")
        assert await pager.drain(PATIENCE_S)
        assert service.sent == ["resolve funds"]


async def test_alerts__service_fails_for_a_while__each_is_reported_in_the_end() -> None:
    async with paging() as (service, board, pager):
        service.answers = [500, 429, 503, 202, 500]
        pager.follow(board)
        board.report("funds", "a")
        board.report("progress", "b")
        assert await pager.drain(PATIENCE_S)
        assert service.sent == ["trigger funds", "trigger progress"]
        assert service.asked == 6


async def test_alerts__problem_ends_while_its_trigger_is_on_the_way__is_ended() -> None:
    async with paging() as (service, board, pager):
        pager.follow(board)
        board.clear("funds")
        assert await pager.drain(PATIENCE_S)
        service.gate.clear()
        board.report("funds", "a")
        await asked(service, 2)
        board.clear("funds")
        service.gate.set()
        assert await pager.drain(PATIENCE_S)
        assert service.sent == ["resolve funds", "trigger funds", "resolve funds"]


async def test_alerts__problem_that_ends_before_it_could_be_reported__is_never_reported() -> None:
    async with paging() as (service, board, pager):
        pager.follow(board)
        board.clear("funds")
        assert await pager.drain(PATIENCE_S)
        service.gate.clear()
        board.report("progress", "b")
        await asked(service, 2)
        board.report("funds", "a")
        board.clear("funds")
        service.gate.set()
        assert await pager.drain(PATIENCE_S)
        assert service.sent == ["resolve funds", "trigger progress"]


async def test_alerts__event_refused_permanently__is_dropped_and_the_next_is_sent() -> None:
    async with paging() as (service, board, pager):
        service.answers = [400]
        pager.follow(board)
        board.report("funds", "a")
        board.report("progress", "b")
        assert await pager.drain(PATIENCE_S)
        assert service.sent == ["trigger progress"]
        assert service.asked == 2


async def test_alerts__service_hangs__nobody_waits_and_little_is_kept() -> None:
    async with paging() as (service, _, pager):
        service.gate.clear()
        for number in range(10 * MAXIMUM_WAITING):
            pager.report(f"made up {number}", Problem(f"made up {number}", "x", 0.0, Severity.ERROR))
        assert not await pager.drain(0.01)
        service.gate.set()
        assert await pager.drain(PATIENCE_S)
        assert len(service.events) <= MAXIMUM_WAITING + 1


async def test_alerts__nobody_there__keeps_trying() -> None:
    async with paging(url="http://127.0.0.1:1/") as (_, board, pager):
        pager.follow(board)
        board.report("funds", "a")
        assert not await pager.drain(0.05)


def test_events__any_problem__has_no_secret_but_the_routing_key_in_its_place() -> None:
    reason = "RPC https://user:passw0rd@rpc.example/?api-key=s3cr3tkey " + json.dumps([7] * 64) + " x" * 2000
    event = trigger(ROUTING_KEY, ORIGIN, Problem("task discovery", reason, 1_700_000_000.25, Severity.ERROR))
    text = json.dumps(event)
    assert text.count(ROUTING_KEY) == 1
    assert not [secret for secret in ("passw0rd", "s3cr3tkey", "7, 7, 7") if secret in text]
    assert len(event["payload"]["summary"]) == 1024
    assert event["payload"]["timestamp"] == "2023-11-14T22:13:20.250+00:00"
    assert event["dedup_key"] == resolve(ROUTING_KEY, ORIGIN, "task discovery")["dedup_key"]
    assert len(dedup_key(ORIGIN, "c" * 1000)) == 255
