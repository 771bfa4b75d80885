"""The paths of the dashboard: page, panels, style sheet, script, and the activity document.

Source: forester/docs/reference/dashboard.md, "Paths".
"""

from http import HTTPStatus

import msgspec
from aiohttp import web

from forester.dashboard.page import CONTENT_SECURITY_POLICY, Document, Pages, static
from forester.dashboard.source import DashboardSource
from forester.dashboard.tree_rows import Choice

_YEAR = "public, max-age=31536000, immutable"


class Dashboard:
    """The dashboard of one process."""

    def __init__(self, source: DashboardSource) -> None:
        self.source = source
        self.pages = Pages(source.inputs)
        self.style, self.script = static("dashboard.css"), static("dashboard.js")


DASHBOARD = web.AppKey("dashboard", Dashboard)


async def page(request: web.Request) -> web.Response:
    """Return the page; ``kind``, ``sort`` and ``text`` choose rows for a browser without script."""
    document = await request.app[DASHBOARD].pages.page(Choice.of(request.query))
    response = _answer(request, document, "text/html")
    response.headers["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
    response.headers["Referrer-Policy"] = "no-referrer"
    return response


async def live(request: web.Request) -> web.Response:
    """Return the panels as JSON, or 304 for the tag of the same content."""
    return _answer(request, await request.app[DASHBOARD].pages.live(), "application/json")


async def style(request: web.Request) -> web.Response:
    """Return the style sheet."""
    return _lasting(_answer(request, request.app[DASHBOARD].style, "text/css"))


async def script(request: web.Request) -> web.Response:
    """Return the script."""
    return _lasting(_answer(request, request.app[DASHBOARD].script, "text/javascript"))


async def activity(request: web.Request) -> web.Response:
    """Return the activity document; 404 from a process that is no forester."""
    made = request.app[DASHBOARD].source.activity
    if made is None:
        body = msgspec.json.encode({"error": "this process is no forester; it shows those of --forester-api-url"})
        return web.Response(status=HTTPStatus.NOT_FOUND, body=body, content_type="application/json")
    return web.Response(body=msgspec.json.encode(made()), content_type="application/json")


def _answer(request: web.Request, document: Document, content_type: str) -> web.Response:
    headers = {"ETag": document.tag, "Vary": "Accept-Encoding"}
    if request.headers.get("If-None-Match") == document.tag:
        return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
    body = document.body
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        headers["Content-Encoding"], body = "gzip", document.packed
    return web.Response(body=body, headers=headers, content_type=content_type, charset="utf-8")


def _lasting(response: web.Response) -> web.Response:
    """Let a browser keep a file whose address has the tag of its content."""
    response.headers["Cache-Control"] = _YEAR
    return response


ROUTES = {
    "/dashboard": page,
    "/dashboard/live": live,
    "/dashboard/dashboard.css": style,
    "/dashboard/dashboard.js": script,
    "/activity": activity,
}
