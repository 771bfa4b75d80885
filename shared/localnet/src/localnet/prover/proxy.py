"""A fault-injecting proxy for a prover in another process."""

import logging
from collections.abc import AsyncIterator

import aiohttp
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from localnet.access import LOOPBACK_ONLY, AccessRules, restrict
from localnet.prover.faults import ProverFaults, showing

_log = logging.getLogger(__name__)

_CONNECT_SECONDS = 10
_OWN_HEADERS = frozenset(
    (
        *("connection", "expect", "host", "keep-alive", "proxy-authenticate", "proxy-authorization"),
        *("te", "trailer", "transfer-encoding", "upgrade"),
    )
)
"""Headers of one connection, not of the call (RFC 9110 section 7.6.1)."""
_LEFT_OUT = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
"""Headers that the client sets automatically."""

_SESSION = web.AppKey("session", aiohttp.ClientSession)


def make_app(url: str, faults: ProverFaults, access: AccessRules = LOOPBACK_ONLY) -> web.Application:
    """Return an application that forwards every call to the prover at ``url``, with its body unchanged."""
    app = web.Application(middlewares=[showing(faults)])
    # The prover itself decides which origins may read its answers.
    restrict(app, access, cors=False)
    app.cleanup_ctx.append(_session)

    async def forward(request: web.Request) -> web.StreamResponse:
        return await _forward(request, url.rstrip("/"))

    app.router.add_route("*", "/{path:.*}", forward)
    return app


async def _session(app: web.Application) -> AsyncIterator[None]:
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout, auto_decompress=False) as session:
        app[_SESSION] = session
        yield


async def _forward(request: web.Request, url: str) -> web.StreamResponse:
    call = request.app[_SESSION].request(
        request.method,
        URL(url + request.raw_path, encoded=True),
        headers=_passed_on(request.headers),
        data=request.content if request.can_read_body else None,
        skip_auto_headers=_LEFT_OUT,
        allow_redirects=False,
    )
    response: web.StreamResponse | None = None
    try:
        async with call as answer:
            response = web.StreamResponse(
                status=answer.status, reason=answer.reason, headers=_passed_on(answer.headers)
            )
            await response.prepare(request)
            async for part in answer.content.iter_any():
                await response.write(part)
            await response.write_eof()
            return response
    except aiohttp.ClientError as fault:
        _log.warning("the prover at %s cannot be reached: %s", url, type(fault).__name__)
        if response is not None:
            raise  # the answer has begun: only the end of the connection can signal the error
        body = {"code": "unavailable", "message": f"the prover at {url} cannot be reached"}
        return web.json_response(body, status=502)


def _passed_on(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in _OWN_HEADERS)
