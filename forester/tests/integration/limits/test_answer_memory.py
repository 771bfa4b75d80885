"""Answers that are too long, alone or together: they are refused as their bytes arrive."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import tracemalloc
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web

from forester.chain import rpc_transport
from forester.chain.rpc_transport import RpcEndpoint
from forester.errors import AnswersExceedMemory, AnswerTooLong, EndpointError, MalformedAnswer
from forester.indexer.answers import read_answer
from forester.indexer.client import IndexerClient, IndexerTimes
from forester.indexer.failures import AnswerWrong
from forester.limits.answer_memory import AnswerMemory

TINY = b'{"jsonrpc":"2.0","id":1,"result":7}'


class Service:
    """Sends ``length`` bytes of an answer, waits for ``go_on``, then sends the end of it."""

    def __init__(self, length: int = 0, *, packed: bool = False) -> None:
        self.length = length
        self.packed = packed
        self.sent = asyncio.Event()
        self.go_on = asyncio.Event()
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        if self.packed:
            response.headers["Content-Encoding"] = "gzip"
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            spaces = b" " * self.length
            await response.write(gzip.compress(spaces + TINY) if self.packed else spaces)
            self.sent.set()
            await self.go_on.wait()
            if not self.packed:
                await response.write(TINY)
        return response


@contextlib.asynccontextmanager
async def serving(service: Service) -> AsyncIterator[aiohttp.ClientSession]:
    app = web.Application()
    app.router.add_post("/{tail:.*}", service.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    service.url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    try:
        async with aiohttp.ClientSession() as session:
            yield session
    finally:
        await runner.cleanup()


async def outcome(endpoint: RpcEndpoint, method: str = "getSlot") -> bytes | EndpointError:
    try:
        return bytes(await endpoint.call(method, [], timeout_s=20))
    except EndpointError as error:
        return error


async def test_node__answers_of_a_hundred_connections_at_once__stay_within_their_memory() -> None:
    memory = AnswerMemory(each=2**20, total=3 * 2**20)
    service = Service(length=2**19)
    async with serving(service) as session:
        endpoint = RpcEndpoint(session, service.url, answers=memory)
        calls = [asyncio.create_task(outcome(endpoint)) for _ in range(100)]
        while sum(call.done() for call in calls) < 94:
            assert memory.held < 4 * 2**20
            await asyncio.sleep(0.005)
        service.go_on.set()
        results = await asyncio.gather(*calls)
        refused = [item for item in results if isinstance(item, AnswersExceedMemory)]
        assert all(item.retryable and item.exit_code == 75 for item in refused)
        assert 0 < results.count(b"7") == 100 - len(refused)
        assert len(refused) >= 94
        assert memory.held == 0
        assert await outcome(endpoint) == b"7"


@pytest.mark.parametrize("packed", [False, True])
async def test_node__one_answer_is_too_long__is_refused_before_it_ends(packed: bool) -> None:
    memory = AnswerMemory(each=2**20, total=2**30)
    service = Service(length=32 * 2**20, packed=packed)
    async with serving(service) as session:
        found = await outcome(RpcEndpoint(session, service.url, answers=memory))
        service.go_on.set()
    assert isinstance(found, MalformedAnswer)
    assert "sent an answer longer than 1048576 bytes" in found.detail
    assert memory.held == 0


async def test_node__long_answer__is_read_of_methods_that_list_accounts_alone() -> None:
    service = Service(length=2**21)
    service.go_on.set()
    async with serving(service) as session:
        endpoint = RpcEndpoint(session, service.url)
        for method in ("getMultipleAccounts", "getProgramAccounts", "getProgramAccountsV2"):
            assert await outcome(endpoint, method) == b"7"
        for method in ("getTransaction", "getSignatureStatuses", "sendTransaction"):
            assert isinstance(await outcome(endpoint, method), AnswerTooLong)


READERS: dict[str, Callable[[bytes], object]] = {
    "node": lambda text: RpcEndpoint(cast(Any, None), "http://h")._result("getProgramAccounts", 200, text, None),
    "indexer": lambda text: read_answer("getIndexerSlot", text, int),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("answer", [b'{"id":VALUES,"result":7}', b'{"error":{"code":1,"data":VALUES}}'])
def test_answers__members_of_any_shape__take_no_memory(reader: str, answer: bytes) -> None:
    text = answer.replace(b"VALUES", b"[" + b"{}," * 700_000 + b"{}]")
    tracemalloc.start()
    try:
        with contextlib.suppress(EndpointError):
            READERS[reader](text)
        assert tracemalloc.get_traced_memory()[1] < 2 * len(text), "as objects they take 24 times as much"
    finally:
        tracemalloc.stop()


async def test_node__cancelled_and_broken_calls__give_their_memory_back() -> None:
    memory = AnswerMemory(each=2**20, total=2**20)
    service = Service(length=2**19)
    async with serving(service) as session:
        call = asyncio.create_task(outcome(RpcEndpoint(session, service.url, answers=memory)))
        await service.sent.wait()
        await asyncio.sleep(0.2)
        assert memory.held == 2**19
        call.cancel()
        await asyncio.wait([call])
        assert memory.held == 0
        service.go_on.set()


def test_limits__of_one_answer__leave_room_for_the_largest_account() -> None:
    largest = 10 * 2**20 * 4 // 3
    assert 2 * largest < rpc_transport.ANSWER_LIMIT_BYTES <= 128 * 2**20


async def test_indexer__answer_is_too_long_or_too_many__is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(length=2**19)
    times = IndexerTimes(call_s=5, deadline_s=5, attempts=1)
    async with serving(service) as session:
        service.go_on.set()
        client = IndexerClient(session, service.url, times=times)
        for each, total, kind in ((1000, 10**6, AnswerWrong), (10**6, 1000, AnswersExceedMemory)):
            memory = AnswerMemory(each=each, total=total)
            monkeypatch.setattr("forester.indexer.client.ANSWERS", memory)
            with pytest.raises(kind, match="longer than 1000 bytes"):
                await client.slot()
            assert memory.held == 0
