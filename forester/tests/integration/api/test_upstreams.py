"""The APIs of other foresters, of which one answers what no forester does."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from forester.api.upstreams import Upstreams


def forester(answer: str) -> TestServer:
    async def answered(request: web.Request) -> web.Response:
        return web.Response(status=404) if request.path == "/activity" else web.Response(text=answer)

    app = web.Application()
    app.router.add_get("/{path:.*}", answered)
    return TestServer(app)


@pytest.mark.parametrize("answer", ["[" * 100_000, '{"status": ' + "[" * 100_000, "[]", "<html>"])
async def test_upstreams__one_answers_nonsense__leaves_the_others_readable(answer: str) -> None:
    async with forester(answer) as liar, forester('{"status": "ok"}') as other:
        upstreams = Upstreams([str(liar.make_url("/")), str(other.make_url("/"))])
        polling = asyncio.create_task(upstreams.run())
        async with asyncio.timeout(60):
            while not upstreams.read:
                assert not polling.done()
                await asyncio.sleep(0.01)
        polling.cancel()
        await asyncio.wait([polling])
    first, second = upstreams.views
    assert first.error is not None
    assert first.error.endswith("something that is not an object")
    assert second.is_ok
    assert second.answers["/health"] == {"status": "ok"}
