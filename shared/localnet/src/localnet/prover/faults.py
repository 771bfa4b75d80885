"""Faults of a prover that clients must live with: unavailable, cut off, slow."""

import asyncio
from dataclasses import dataclass

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware


@dataclass(slots=True)
class ProverFaults:
    """Faults that can be injected into the prover.

    With ``down`` every call is answered with status 503, with ``cut`` connections are closed without an answer, and
    each call is delayed by ``delay_ms`` first.
    """

    down: bool = False
    cut: bool = False
    delay_ms: int = 0


def showing(faults: ProverFaults) -> Middleware:
    """Return a middleware that applies the present faults to each call."""

    @web.middleware
    async def show(request: web.Request, handler: Handler) -> web.StreamResponse:
        if faults.delay_ms:
            await asyncio.sleep(faults.delay_ms / 1000)
        if faults.cut and request.transport is not None:
            request.transport.abort()
        if faults.down or faults.cut:
            return web.json_response({"code": "unavailable", "message": "down by `localnet faults`"}, status=503)
        return await handler(request)

    return show
