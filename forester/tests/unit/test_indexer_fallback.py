"""Two indexers: the second answers while the first one fails."""

from __future__ import annotations

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from forester.errors import EndpointError
from forester.indexer.client import FAILURES_BEFORE_FALLBACK, PROBE_S, IndexerClient, IndexerTimes
from forester.limits.backoff import Backoff

ONCE = IndexerTimes(attempts=1, backoff=Backoff(0.001, 0.002))


class Indexer:
    """Says a slot, or that it is out of order."""

    def __init__(self, slot: int) -> None:
        self.slot = slot
        self.broken = False
        app = web.Application()
        app.router.add_post("/{anything:.*}", self._answer)
        self.server = TestServer(app)

    async def _answer(self, _: web.Request) -> web.Response:
        if self.broken:
            return web.Response(status=503)
        return web.json_response({"jsonrpc": "2.0", "id": "test-account", "result": self.slot})


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


async def test_calls__no_second_indexer__stay_with_the_first() -> None:
    only = Indexer(1)
    async with only.server, aiohttp.ClientSession() as session:
        client = IndexerClient(session, str(only.server.make_url("/")), times=ONCE)
        only.broken = True
        for _ in range(2 * FAILURES_BEFORE_FALLBACK):
            with pytest.raises(EndpointError, match="503"):
                await client.slot()
        only.broken = False
        assert await client.slot() == 1
