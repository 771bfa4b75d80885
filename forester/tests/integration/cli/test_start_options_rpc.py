"""Options of `forester start` about the RPC node: what nodes behind real sockets see of each."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web
from scripted_node import ScriptedNode, result, serving, status
from start_options import NOWHERE, Pauses, chosen, until

from forester.chain.rpc_pool import RpcPool
from forester.errors import EndpointError, EndpointTimedOut, EndpointUnreachable

QUICK = ("--rpc-pool-initial-retry-delay-ms", "1", "--rpc-pool-max-retry-delay-ms", "1")


def pool_of(*words: str) -> RpcPool:
    return RpcPool.from_settings(chosen(*words))


async def slot(pool: RpcPool, **options: Any) -> int:
    return await pool.call("getSlot", [], int, **options)


async def test_rpc_url__of_one_node_or_another__is_the_one_that_is_asked() -> None:
    nodes = [ScriptedNode(usual=result(1)), ScriptedNode(usual=result(2))]
    async with serving(*nodes):
        for number, node in enumerate(nodes, start=1):
            async with pool_of("--rpc-url", node.url) as pool:
                assert await slot(pool) == number


@pytest.mark.parametrize("threshold", [1, 4])
async def test_failure_threshold__of_the_first_node__is_how_often_it_is_asked_before_the_fallback(
    threshold: int,
) -> None:
    first, second = ScriptedNode(usual=status(502)), ScriptedNode(usual=result(2))
    async with serving(first, second):
        words = ("--fallback-rpc-url", second.url, "--rpc-pool-failure-threshold", str(threshold))
        async with pool_of("--rpc-url", first.url, *words, *QUICK) as pool:
            assert await slot(pool) == 2
    assert len(first.asked) == threshold


async def test_fallback_rpc_url__not_given__leaves_the_failure_to_the_caller() -> None:
    first = ScriptedNode(usual=status(502))
    async with serving(first), pool_of("--rpc-url", first.url, "--rpc-pool-max-retries", "6", *QUICK) as pool:
        with pytest.raises(EndpointUnreachable):
            await slot(pool)


@pytest.mark.parametrize("interval_s", [7, 70])
async def test_primary_probe_interval__of_a_failed_first_node__is_the_time_until_it_is_tried_again(
    interval_s: int,
) -> None:
    first, second = ScriptedNode(usual=status(502)), ScriptedNode(usual=result(2))
    now = 100.0
    async with serving(first, second):
        words = ("--fallback-rpc-url", second.url, "--rpc-pool-primary-probe-interval-secs", str(interval_s))
        async with pool_of("--rpc-url", first.url, *words, *QUICK) as pool:
            pool._clock = lambda: now
            await slot(pool)
            first.asked.clear()
            for seconds, probes in ((interval_s - 1, 0), (1, 1), (interval_s - 1, 1), (1, 2)):
                now += seconds
                await slot(pool)
                assert first.asked == ["getHealth"] * probes


class SlowNode(ScriptedNode):
    """Answers once so many requests wait, and knows the most that ever did."""

    def __init__(self, enough: int) -> None:
        super().__init__(usual=self.wait)
        self.waiting = self.most = 0
        self.enough, self.reached = enough, asyncio.Event()

    async def wait(self, body: dict[str, Any]) -> web.Response:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        if self.waiting >= self.enough:
            self.reached.set()
        await self.reached.wait()
        await asyncio.sleep(0.02)  # a second connection at the same time would come now
        self.waiting -= 1
        return await result(1)(body)


@pytest.mark.parametrize("size", [1, 3])
async def test_rpc_pool_size__of_many_calls_at_once__is_how_many_the_node_sees(size: int) -> None:
    node = SlowNode(enough=size)
    async with serving(node), pool_of("--rpc-url", node.url, "--rpc-pool-size", str(size)) as pool:
        await asyncio.gather(*(slot(pool) for _ in range(8)))
    assert node.most == size


@contextlib.contextmanager
def nobody_accepts() -> Iterator[int]:
    """The port of a listener whose queue is full: a connection to it is neither made nor refused."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = int(listener.getsockname()[1])
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))
        yield port


async def test_connection_timeout__of_a_node_that_does_not_accept__ends_the_wait_and_names_the_option() -> None:
    with nobody_accepts() as port:
        words = ("--rpc-url", f"http://127.0.0.1:{port}", "--rpc-pool-max-retries", "0")
        async with pool_of(*words, "--rpc-pool-connection-timeout-secs", "1") as pool:
            with pytest.raises(EndpointUnreachable, match=r"no connection within 1 s.*--rpc-pool-connection-timeout"):
                await slot(pool, timeout_s=60)
        async with pool_of(*words, "--rpc-pool-connection-timeout-secs", "60") as pool:
            with pytest.raises(EndpointTimedOut, match="did not answer getSlot within 2 s"):
                await slot(pool, timeout_s=2)


@pytest.mark.parametrize(("idle_s", "connections"), [("1", 2), ("300", 1)])
async def test_idle_timeout__of_a_connection_not_used_for_longer__closes_it(idle_s: str, connections: int) -> None:
    ports = set()

    async def handle(request: web.Request) -> web.Response:
        assert request.transport is not None
        ports.add(request.transport.get_extra_info("peername")[1])
        return web.json_response({"jsonrpc": "2.0", "id": 1, "result": 1})

    app = web.Application()
    app.router.add_post("/", handle)
    runner = web.AppRunner(app, keepalive_timeout=600, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
        async with pool_of("--rpc-url", url, "--rpc-pool-idle-timeout-secs", idle_s) as pool:
            await slot(pool)
            await asyncio.sleep(1.6)  # the idle time is real: it belongs to the connections
            await slot(pool)
    finally:
        await runner.cleanup()
    assert len(ports) == connections


@pytest.mark.parametrize("retries", [0, 3])
async def test_max_retries__of_a_node_that_fails__is_how_often_it_is_asked_again(retries: int) -> None:
    node = ScriptedNode(usual=status(503))
    words = ("--rpc-pool-max-retries", str(retries), *QUICK)
    async with serving(node), pool_of("--rpc-url", node.url, *words) as pool:
        with pytest.raises(EndpointError):
            await slot(pool)
    assert len(node.asked) == retries + 1


@pytest.mark.parametrize(
    ("initial_ms", "longest_ms", "expected"),
    [
        ("100", "16000", [0.1, 0.2, 0.4, 0.8]),
        ("300", "16000", [0.3, 0.6, 1.2, 2.4]),
        ("300", "500", [0.3, 0.5, 0.5, 0.5]),
    ],
)
async def test_retry_delays__first_and_longest__bound_the_pauses(
    initial_ms: str, longest_ms: str, expected: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.process.retries.random.random", lambda: 1.0)
    pauses = Pauses.kept(monkeypatch)
    words = ("--rpc-pool-initial-retry-delay-ms", initial_ms, "--rpc-pool-max-retry-delay-ms", longest_ms)
    async with pool_of("--rpc-url", NOWHERE, "--rpc-pool-max-retries", "4", *words) as pool:
        with pytest.raises(EndpointUnreachable):
            await slot(pool)
    assert [round(seconds, 6) for seconds in pauses.slept] == expected


@pytest.mark.parametrize("sends", [False, True])
@pytest.mark.parametrize("limited", [None, "--rpc-rate-limit", "--send-tx-rate-limit"])
async def test_rate_limits__of_reads_and_of_sends__space_their_own_kind_alone(
    limited: str | None, sends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = ScriptedNode(usual=result(1))
    words = () if limited is None else (limited, "2")
    async with serving(node), pool_of("--rpc-url", node.url, *words) as pool:
        pauses = Pauses.kept(monkeypatch)
        await asyncio.gather(*(slot(pool, sends=sends) for _ in range(6)))
    spaced = limited == ("--send-tx-rate-limit" if sends else "--rpc-rate-limit")
    assert len(pauses.slept) == (5 if spaced else 0)
    if spaced:
        assert 2.0 < max(pauses.slept) <= 2.5, "the last of six has to wait for five halves of a second"
    await until(lambda: len(node.asked) == 6)
