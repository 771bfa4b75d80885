"""Faults of a prover that clients must live with: unavailable, cut off, slow."""

import asyncio
from dataclasses import dataclass

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware


@dataclass(slots=True)
class ProverFaults:
    """Faults that the prover can be told to show.

    ``down`` answers everything with status 503, ``cut`` closes connections without an answer, and ``delay_ms`` lets
    each call wait before anything else.
    """

    down: bool = False
    cut: bool = False
    delay_ms: int = 0


def showing(faults: ProverFaults) -> Middleware:
    """A middleware that shows the faults as they are at the time of a call."""

    @web.middleware
    async def show(request: web.Request, handler: Handler) -> web.StreamResponse:
        if faults.delay_ms:
            await asyncio.sleep(faults.delay_ms / 1000)
        if faults.cut and request.transport is not None:
            request.transport.abort()
        if faults.down or faults.cut:
            return web.json_response({"code": "unavailable", "message": "told to be down"}, status=503)
        return await handler(request)

    return show
