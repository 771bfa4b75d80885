"""Cross-origin requests, for servers with configured origins; answers are those of the reference."""

from aiohttp import web
from aiohttp.typedefs import Handler

from prover.http.state import STATE

_METHODS = frozenset({"GET", "POST", "PUT", "DELETE", "OPTIONS"})
_SIMPLE_METHODS = frozenset({"GET", "HEAD", "POST"})
_SAFE_HEADERS = frozenset({"Accept", "Accept-Language", "Content-Language", "Origin"})
_HEADERS = frozenset(
    {
        *("X-Requested-With", "Content-Type", "Authorization", "X-Api-Key", "X-Async", "X-Sync"),
        *("Idempotency-Key", "X-Request-Id", "Traceparent"),
    }
)


@web.middleware
async def cross_origin(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer preflights before other middlewares see them, and add headers to answers for allowed origins."""
    allow_origin = _allow_origin(request.headers.get("Origin", ""), request.app[STATE].settings.http.cors_origins)
    if request.method == "OPTIONS":
        return _preflight(request, allow_origin)
    response = await handler(request)
    _mark(response, allow_origin)
    return response


def _allow_origin(origin: str, allowed: tuple[str, ...]) -> str:
    if not origin:
        return ""
    if "*" in allowed:
        return "*"
    return origin if origin in allowed else ""


def _mark(response: web.StreamResponse, allow_origin: str) -> None:
    if allow_origin:
        response.headers["Access-Control-Allow-Origin"] = allow_origin
    if allow_origin != "*":
        response.headers["Vary"] = "Origin"  # caches must not mix the answers to different origins


def _preflight(request: web.Request, allow_origin: str) -> web.Response:
    if not allow_origin:
        return web.Response(status=200)
    method = request.headers.get("Access-Control-Request-Method", "")
    if not method:
        return web.Response(status=400)
    if method not in _METHODS:
        return web.Response(status=405)
    requested = [word.strip().title() for word in request.headers.get("Access-Control-Request-Headers", "").split(",")]
    unsafe = [name for name in requested if name and name not in _SAFE_HEADERS]
    if not set(unsafe) <= _HEADERS:
        return web.Response(status=403)
    response = web.Response(status=200)
    if unsafe:
        response.headers["Access-Control-Allow-Headers"] = ",".join(unsafe)
    if method not in _SIMPLE_METHODS:
        response.headers["Access-Control-Allow-Methods"] = method
    _mark(response, allow_origin)
    return response
