"""Values that handlers and middlewares attach to a request."""

from aiohttp import web

REQUEST_ID: web.RequestKey[str] = web.RequestKey("request_id", str)
API_KEY_NAME: web.RequestKey[str] = web.RequestKey("api_key_name", str)
CIRCUIT_TYPE: web.RequestKey[str] = web.RequestKey("circuit_type", str)
EXTRA_HEADERS: web.RequestKey[dict[str, str]] = web.RequestKey("extra_headers", dict)
FACTS: web.RequestKey[dict[str, object]] = web.RequestKey("facts", dict)
"""Fields that a handler adds to the log line of its request."""
