"""Authentication: the API key of a request, its rate limit, and the role that a path requires."""

from aiohttp import web
from aiohttp.typedefs import Handler

from prover.errors import Forbidden, Unauthorized
from prover.http.access.api_keys import ApiKey, Role
from prover.http.access.clients import network_of
from prover.http.request_fields import API_KEY_NAME
from prover.http.state import STATE
from shared.process.logs import bind

OPEN_PATHS = frozenset({"/", "/health", "/docs"})
"""Paths without a key: launchers and orchestrators poll the first two, browsers open the page."""

ADMIN_PREFIX = "/admin/"
"""Prefix of paths for administrators only; without configured keys they do not exist."""

ADMIN_QUEUE_PATHS = frozenset({"/queue/add", "/queue/cleanup"})
"""Paths for administrators if keys are configured, and for all clients otherwise, as in the reference."""

_BEARER = "Bearer "


@web.middleware
async def authenticate(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Handle a request if no key is configured, or if its key has the required role."""
    state = request.app[STATE]
    is_admin_path = request.path.startswith(ADMIN_PREFIX)
    if not state.api_keys.required:
        if is_admin_path:
            raise web.HTTPNotFound  # without keys no client is an administrator
        return await handler(request)
    if request.path in OPEN_PATHS:
        return await handler(request)
    key = await _key_of(request)
    state.rate_limiter.take(key.name)
    needs_admin = is_admin_path or (state.queue is not None and request.path in ADMIN_QUEUE_PATHS)
    if needs_admin and key.role is not Role.ADMIN:
        raise Forbidden(f"API key {key.name!r} has no administrator role")
    request[API_KEY_NAME] = key.name
    with bind(api_key=key.name):
        return await handler(request)


async def _key_of(request: web.Request) -> ApiKey:
    """Return the key of a request. As in the reference, the bearer token counts only without X-API-Key."""
    given = request.headers.get("X-API-Key", "")
    if not given:
        authorization = request.headers.get("Authorization", "")
        given = authorization.removeprefix(_BEARER) if authorization.startswith(_BEARER) else ""
    if not given:
        raise Unauthorized
    state = request.app[STATE]
    key = state.api_keys.find(given)
    if key is None:
        await state.failed_keys.delay(network_of(request.remote or ""))
        raise Unauthorized
    return key
