"""Two indexers: the fallback answers while the first one fails."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from forester.errors import EndpointError, RateLimited
from forester.indexer.client import IndexerClient, IndexerTimes
from forester.indexer.endpoints import FAILURES_BEFORE_FALLBACK, PROBE_S, SLOTS_APART, Endpoints
from forester.indexer.failures import AnswerWrong, IndexerBehind, IndexerRefused
from shared.process.retries import Backoff

ONCE = IndexerTimes(attempts=1, lag_poll_s=0.001, backoff=Backoff(0.001, 0.002))
WAIT_S = 1.0
Answer = tuple[int, str]


class Indexer:
    """An indexer at a slot, or with ``instead``, which fails while ``broken``."""

    def __init__(self, slot: int, instead: Answer | None = None) -> None:
        self.slot = slot
        self.broken = False
        self.instead = instead
        self.asked = 0
        app = web.Application()
        app.router.add_post("/{anything:.*}", self._answer)
        self.server = TestServer(app)

    async def _answer(self, _: web.Request) -> web.Response:
        self.asked += 1
        if self.broken:
            return web.Response(status=503)
        if self.instead is not None:
            status, text = self.instead
            return web.Response(status=status, text=text, headers={"Location": "http://127.0.0.1:1/"})
        return web.json_response({"jsonrpc": "2.0", "id": "test-account", "result": self.slot})


@asynccontextmanager
async def serving(*indexers: Indexer, clock: Callable[[], float] = time.monotonic) -> AsyncIterator[IndexerClient]:
    """A client of one or two indexers, which asks each at most once."""
    async with AsyncExitStack() as stack:
        for indexer in indexers:
            await stack.enter_async_context(indexer.server)
        session = await stack.enter_async_context(aiohttp.ClientSession())
        urls = [str(indexer.server.make_url("/")) for indexer in indexers]
        fallback = urls[1] if len(urls) > 1 else None
        yield IndexerClient(session, urls[0], fallback=fallback, times=ONCE, clock=clock)


def refusal(code: int, message: str) -> Answer:
    return 200, json.dumps({"jsonrpc": "2.0", "id": "test-account", "error": {"code": code, "message": message}})


OF_INDEXER = [
    *((status, "") for status in (302, 401, 402, 403, 404)),
    refusal(-32603, "Internal error"),
    refusal(-32000, "Internal server error"),
    refusal(-32000, "Node is behind 57 slots"),
    refusal(-32401, "no key"),
    (200, "<html>please log in</html>"),
    (200, '{"jsonrpc":"2.0","id":"test-acc'),
    (200, '{"jsonrpc":"2.0","id":"test-account","result":-5}'),
    (200, '{"result":' + "[" * 100_000),
]
OF_REQUEST = [
    refusal(-32602, "Invalid params"),
    refusal(-32601, "Method not found"),
    refusal(-32000, "Record Not Found: Leaf nodes not found for hashes."),
    (413, ""),
]


async def test_calls__first_indexer_fails__go_to_the_second_until_the_first_is_well() -> None:
    first, second, now = Indexer(1), Indexer(2), 0.0
    async with first.server, second.server, aiohttp.ClientSession() as session:
        urls = [str(item.server.make_url("/")) for item in (first, second)]
        client = IndexerClient(session, urls[0], fallback=urls[1], times=ONCE, clock=lambda: now)
        assert await client.slot() == 1
        first.broken = True
        for _ in range(FAILURES_BEFORE_FALLBACK):
            with pytest.raises(EndpointError):
                await client.slot()
        assert await client.slot() == 2
        now += PROBE_S
        with pytest.raises(EndpointError):
            await client.slot()
        assert await client.slot() == 2, "one failed probe is enough"
        now += PROBE_S
        first.broken = False
        assert [await client.slot(), await client.slot()] == [1, 1]


async def test_calls__no_fallback__stay_with_the_first() -> None:
    only = Indexer(1)
    async with only.server, aiohttp.ClientSession() as session:
        client = IndexerClient(session, str(only.server.make_url("/")), times=ONCE)
        only.broken = True
        for _ in range(2 * FAILURES_BEFORE_FALLBACK):
            with pytest.raises(EndpointError, match="503"):
                await client.slot()
        only.broken = False
        assert await client.slot() == 1


@pytest.mark.parametrize("answer", OF_INDEXER)
async def test_calls__first_indexer_refuses_or_answers_wrongly__fallback_answers_and_takes_over(answer: Answer) -> None:
    now = 0.0
    first, second = Indexer(1, answer), Indexer(2)
    async with serving(first, second, clock=lambda: now) as client:
        for _ in range(FAILURES_BEFORE_FALLBACK + 2):
            assert await client.slot() == 2
        assert first.asked == FAILURES_BEFORE_FALLBACK
        now += PROBE_S
        first.instead = None
        assert [await client.slot(), await client.slot()] == [1, 1]


@pytest.mark.parametrize("answer", OF_REQUEST)
async def test_calls__request_is_refused__stays_with_the_first_indexer(answer: Answer) -> None:
    first, second = Indexer(1, answer), Indexer(2)
    async with serving(first, second) as client:
        for _ in range(2 * FAILURES_BEFORE_FALLBACK):
            with pytest.raises(IndexerRefused):
                await client.slot()
    assert second.asked == 0


@pytest.mark.parametrize("broken", [True, False])
async def test_calls__answered_wrongly_by_both_or_only_one_there__is_reported_as_wrong_and_nobody_is_left(
    broken: bool,
) -> None:
    first, second = Indexer(1, (200, "<html>")), Indexer(2, (200, "<html>"))
    second.broken = broken
    async with serving(first, second) as client:
        for _ in range(2 * FAILURES_BEFORE_FALLBACK):
            with pytest.raises(AnswerWrong):
                await client.slot()
        first.instead = None
        assert await client.slot() == 1


async def test_calls__fallback_refuses_while_in_use__first_is_asked_at_once() -> None:
    first, second = Indexer(1), Indexer(2, (401, ""))
    async with serving(first, second) as client:
        first.broken = True
        for _ in range(FAILURES_BEFORE_FALLBACK):
            with pytest.raises(EndpointError):
                await client.slot()
        first.broken = False
        assert await client.slot() == 1
        assert second.asked == 1


async def test_wait_for_slot__first_indexer_stalls_and_fallback_is_ahead__leaves_the_first_until_it_is_as_far() -> None:
    now = 0.0
    first, second = Indexer(100), Indexer(5000)
    async with serving(first, second, clock=lambda: now) as client:
        assert await client.wait_for_slot(4990, WAIT_S) == 5000
        assert await client.slot() == 5000
        now += PROBE_S
        assert await client.slot() == 5000, "its slot does not advance, and calls do not return to it"
        assert await client.wait_for_slot(4990, WAIT_S) == 5000
        now += PROBE_S
        first.slot = 4990 - SLOTS_APART
        with pytest.raises(IndexerBehind):
            await client.wait_for_slot(6000, WAIT_S)
        now += PROBE_S
        first.slot = 4990
        assert await client.wait_for_slot(4990, WAIT_S) == 4990


async def test_wait_for_slot__both_indexers_are_late__raise_the_slot_of_the_one_that_is_farther() -> None:
    first, second = Indexer(100), Indexer(100 + SLOTS_APART)
    async with serving(first, second) as client:
        with pytest.raises(IndexerBehind, match="at slot 100, behind slot 4990"):
            await client.wait_for_slot(4990, WAIT_S)
        assert await client.slot() == 100, "the other one is hardly better"
        second.slot += 1
        with pytest.raises(IndexerBehind):
            await client.wait_for_slot(4990, WAIT_S)
        assert await client.slot() == second.slot


async def test_wait_for_slot__fallback_fails_after_the_first_was_left__first_is_better_than_nothing() -> None:
    first, second = Indexer(100), Indexer(5000)
    async with serving(first, second) as client:
        assert await client.wait_for_slot(4990, WAIT_S) == 5000
        second.broken = True
        for _ in range(FAILURES_BEFORE_FALLBACK):
            with pytest.raises(EndpointError):
                await client.slot()
        assert await client.slot() == 100
        with pytest.raises(IndexerBehind):
            await client.wait_for_slot(4990, WAIT_S)


async def test_calls__indexer_refuses_permanently_and_the_other_is_unreachable__raise_the_refusal() -> None:
    first, second = Indexer(1, (401, "")), Indexer(2)
    second.broken = True
    async with serving(first, second) as client:
        with pytest.raises(IndexerRefused, match="401"):
            await client.slot()


async def test_calls__indexer_refuses_permanently_and_the_other_requests_a_retry__raise_the_latter() -> None:
    first, second = Indexer(1, (401, "")), Indexer(2, (429, ""))
    async with serving(first, second) as client:
        with pytest.raises(RateLimited):
            await client.slot()


def test_log__failover_and_its_end__is_a_line_each(monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[str] = []
    for level in ("info", "warning"):
        monkeypatch.setattr(f"forester.indexer.endpoints._log.{level}", lambda event, **_: logged.append(event))
    now = 0.0
    endpoints = Endpoints("http://first", "http://second", lambda: now)
    for _ in range(3):
        for _ in range(FAILURES_BEFORE_FALLBACK):
            endpoints.note(endpoints.first, failed=True)
        endpoints.note(endpoints.first, failed=False)  # a late answer
        assert endpoints.current is endpoints.fallback
        assert logged == ["indexer_failed_over"]
        now += PROBE_S
    for _ in range(2):
        endpoints.note(endpoints.first, failed=False)
    assert logged == ["indexer_failed_over", "indexer_primary_recovered"]
    endpoints.fail_over(endpoints.first)
    endpoints.record_probe(late=True)
    endpoints.record_probe(late=False)
    assert endpoints.current is endpoints.first
    assert logged == ["indexer_failed_over", "indexer_primary_recovered"] * 2


def test_look__asked_for_by_several__is_that_of_one_and_late_answers_change_nothing() -> None:
    now = 0.0
    endpoints = Endpoints("http://first", "http://second", lambda: now)
    assert not endpoints.begin_probe()
    endpoints.fail_over(endpoints.first)
    assert (endpoints.current, endpoints.begin_probe()) == (endpoints.fallback, False)
    now += PROBE_S
    assert [endpoints.begin_probe(), endpoints.begin_probe()] == [True, False]
    for _ in range(FAILURES_BEFORE_FALLBACK):
        assert endpoints.fallback is not None
        endpoints.note(endpoints.fallback, failed=True)
    assert endpoints.current is endpoints.first
    endpoints.record_probe(late=True)
    assert endpoints.current is endpoints.first, "the fallback was left meanwhile"


async def test_calls__chain_contradicts_the_indexer_in_use__go_to_the_other_one() -> None:
    now = 0.0
    first, second = Indexer(1), Indexer(2)
    async with serving(first, second, clock=lambda: now) as client:
        assert await client.slot() == 1
        client.contradicted()
        client.contradicted()
        assert await client.slot() == 2, "the second report may be about the first indexer, too"
        now += PROBE_S
        client.contradicted()
        assert await client.slot() == 1, "the fallback was no better"
        now += PROBE_S
        client.contradicted()
        assert await client.slot() == 2
        now += PROBE_S
        assert await client.wait_for_slot(1, WAIT_S) == 1, "the first is tried again"
    async with serving(only := Indexer(1)) as client:
        client.contradicted()
        assert await client.slot() == 1
        assert only.asked == 1
