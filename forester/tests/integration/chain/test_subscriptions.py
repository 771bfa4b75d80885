"""Notifications over real WebSockets that break, stall and lie."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web
from solders.pubkey import Pubkey

from forester.chain import subscriptions
from forester.chain.subscriptions import AccountChanged, Event, NotificationsLost, SlotSeen, events
from forester.errors import MalformedAnswer, RequestRefused
from shared.process.retries import Backoff

ADDRESS = Pubkey(bytes([4]) * 32)
QUICK = Backoff(0.01, 0.02)
Script = Callable[[web.WebSocketResponse], Awaitable[None]]


@contextlib.asynccontextmanager
async def node(*scripts: Script, refusals: int = 0) -> AsyncIterator[str]:
    """A node that refuses some handshakes, then plays one script per connection, the last one for all that follow."""
    left = list(scripts)

    async def handle(request: web.Request) -> web.StreamResponse:
        nonlocal refusals
        if refusals:
            refusals -= 1
            return web.Response(status=503)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        script = left.pop(0) if len(left) > 1 else left[0]
        await script(socket)
        return socket

    app = web.Application()
    app.router.add_get("/", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"ws://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()


async def subscribe(socket: web.WebSocketResponse, count: int = 1) -> list[dict[str, Any]]:
    """Answer so many requests, with ids of our own."""
    asked = []
    for _ in range(count):
        request = json.loads((await socket.receive()).data)
        asked.append(request)
        await socket.send_json({"jsonrpc": "2.0", "id": request["id"], "result": 1000 + request["id"]})
    return asked


async def notify(socket: web.WebSocketResponse, subscription: int, result: Any) -> None:
    params = {"subscription": 1000 + subscription, "result": result}
    await socket.send_json({"jsonrpc": "2.0", "method": "notification", "params": params})


def slots_from(first: int, *, then_close: bool = True) -> Script:
    async def script(socket: web.WebSocketResponse) -> None:
        await subscribe(socket)
        for slot in (first, first + 1):
            await notify(socket, 0, {"slot": slot, "parent": slot - 1, "root": 0})
        if not then_close:
            await asyncio.Event().wait()

    return script


def seen(slot: int) -> SlotSeen:
    return SlotSeen(slot, slot - 1)


async def first(count: int, url: str, wanted: list[subscriptions.Subscription], **options: Any) -> list[Event]:
    found: list[Event] = []
    async with (
        aiohttp.ClientSession() as session,
        aclosing(events(session, url, wanted, backoff=QUICK, **options)) as stream,
    ):
        async for event in stream:
            found.append(event)
            if len(found) == count:
                break
    return found


async def test_events__connection_breaks__come_again_after_a_gap() -> None:
    async with node(slots_from(10), slots_from(20)) as url:
        found = await asyncio.wait_for(first(6, url, [subscriptions.slots()]), timeout=60)
    assert found == [NotificationsLost(0), seen(10), seen(11), NotificationsLost(1), seen(20), seen(21)]


@pytest.mark.parametrize(("steady_s", "failures"), [(30.0, [0, 1, 2, 3]), (0.0, [0, 1, 1, 1])], ids=["no", "yes"])
async def test_events__connection_breaks_again__attempts_are_counted_until_one_lasts(
    steady_s: float, failures: list[int]
) -> None:
    async with node(slots_from(10)) as url:
        found = await asyncio.wait_for(first(12, url, [subscriptions.slots()], steady_s=steady_s), timeout=60)
    assert [event.failures for event in found if isinstance(event, NotificationsLost)] == failures


async def test_events__node_is_silent__is_left_after_the_idle_time() -> None:
    async with node(slots_from(10, then_close=False), slots_from(20)) as url:
        found = await asyncio.wait_for(first(5, url, [subscriptions.slots()], idle_s=0.2), timeout=60)
    assert found[3:] == [NotificationsLost(1), seen(20)]


DEEP = "[" * 100_000 + "]" * 100_000
NONSENSE = [
    "no json",
    "[]",
    '{"params": {"subscription": 1000, "result": {"slot": "x"}}}',
    f'{{"params": {{"subscription": 1000, "result": {{"slot": 1, "more": {DEEP}}}}}}}',
]


@pytest.mark.parametrize("nonsense", NONSENSE, ids=range(len(NONSENSE)))
async def test_events__nonsense__is_a_break_and_no_crash(nonsense: str) -> None:
    async def lying(socket: web.WebSocketResponse) -> None:
        await subscribe(socket)
        await socket.send_str(nonsense)
        await asyncio.Event().wait()

    async with node(lying, slots_from(20)) as url:
        found = await asyncio.wait_for(first(3, url, [subscriptions.slots()]), timeout=60)
    assert found == [NotificationsLost(0), NotificationsLost(1), seen(20)]


@pytest.mark.parametrize(
    "wanted", [subscriptions.slots(), subscriptions.account(ADDRESS), subscriptions.program_accounts(ADDRESS)]
)
async def test_notification__nested_deeply__is_malformed(wanted: subscriptions.Subscription) -> None:
    message = subscriptions._Message(params=subscriptions._Params(7, msgspec.Raw(f'{{"more": {DEEP}}}'.encode())))
    async with aiohttp.ClientSession() as session:
        node = subscriptions._Node(session, "ws://127.0.0.1:1/", (wanted,), 30.0)
        with pytest.raises(MalformedAnswer, match="unexpected notification: nested too deeply"):
            node._event(message, {7: wanted})


async def test_events__of_accounts_and_programs__carry_address_data_and_slot() -> None:
    wire = {
        "lamports": 9,
        "owner": str(ADDRESS),
        "data": [base64.b64encode(b"xyz").decode(), "base64"],
        "executable": False,
    }
    asked: list[dict[str, Any]] = []

    async def script(socket: web.WebSocketResponse) -> None:
        asked.extend(await subscribe(socket, 2))
        await notify(socket, 0, {"context": {"slot": 5}, "value": wire})
        await notify(socket, 7, {"context": {"slot": 5}, "value": wire})
        await notify(socket, 1, {"context": {"slot": 6}, "value": {"pubkey": str(ADDRESS), "account": wire}})
        await asyncio.Event().wait()

    wanted = [subscriptions.account(ADDRESS), subscriptions.program_accounts(ADDRESS, memcmp=[(8, b"ab")], length=9)]
    async with node(script) as url:
        found = await asyncio.wait_for(first(3, url, wanted), timeout=60)
    changed = [event for event in found if isinstance(event, AccountChanged)]
    assert [(event.slot, event.account.address, event.account.data) for event in changed] == [
        (5, ADDRESS, b"xyz"),
        (6, ADDRESS, b"xyz"),
    ]
    assert asked[1]["params"][1]["dataSlice"] == {"offset": 0, "length": 9}
    assert asked[1]["params"][1]["filters"] == [{"memcmp": {"offset": 8, "bytes": "YWI=", "encoding": "base64"}}]


async def test_events__subscription_refused__ends_with_the_reason() -> None:
    async def refusing(socket: web.WebSocketResponse) -> None:
        request = json.loads((await socket.receive()).data)
        await socket.send_json({"id": request["id"], "error": {"code": -32601, "message": "Method not found"}})

    async with node(refusing) as url:
        with pytest.raises(RequestRefused, match="refused slotSubscribe"):
            await asyncio.wait_for(first(1, url, [subscriptions.slots()]), timeout=60)


async def test_events__subscription_refused_at_length__ends_with_the_beginning_of_the_reason() -> None:
    async def refusing(socket: web.WebSocketResponse) -> None:
        await socket.receive()
        await socket.send_str(f'{{"id": 0, "error": {"[" * 800 + "]" * 800}}}')

    async with node(refusing) as url:
        with pytest.raises(RequestRefused, match=r"refused slotSubscribe: \[{500}$"):
            await asyncio.wait_for(first(1, url, [subscriptions.slots()]), timeout=60)


async def test_events__handshake_answered_with_a_redirect__do_not_follow_it() -> None:
    redirected = asyncio.Event()

    async def redirect(_: web.Request) -> web.Response:
        redirected.set()
        return web.Response(status=302, headers={"Location": elsewhere.replace("ws:", "http:")})

    connected = asyncio.Event()

    async def script(socket: web.WebSocketResponse) -> None:
        connected.set()
        await slots_from(1)(socket)

    app = web.Application()
    app.router.add_get("/", redirect)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        async with node(script) as elsewhere:
            url = f"ws://127.0.0.1:{runner.addresses[0][1]}/"
            waiting = asyncio.create_task(first(1, url, [subscriptions.slots()]))
            await asyncio.wait_for(redirected.wait(), 60)
            await asyncio.wait([waiting], timeout=0.3)
            waiting.cancel()
            await asyncio.wait([waiting])
    finally:
        await runner.cleanup()
    assert not connected.is_set()
    assert waiting.cancelled()


async def test_events__handshake_refused_at_first__begin_when_it_is_accepted() -> None:
    async with node(slots_from(1, then_close=False), refusals=3) as url:
        (event,) = await asyncio.wait_for(first(1, url, [subscriptions.slots()]), timeout=60)
    assert event == NotificationsLost(3)


async def test_events__nobody_listens__is_tried_again_without_end() -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(first(1, "ws://127.0.0.1:1/", [subscriptions.slots()]), timeout=0.5)
