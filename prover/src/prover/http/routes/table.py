"""Routes of the API address. Paths match exactly; other methods answer 405, other paths 404.

The routes of the queue exist only with one.
"""

from collections.abc import Awaitable, Callable

from aiohttp import web
from msgspec import Struct

from prover.http.routes import about, jobs, submit
from prover.http.routes import queue as queue_routes
from prover.http.routes.probes import health
from prover.http.routes.prove import prove


class Route(Struct, frozen=True):
    """A route and its handler."""

    method: str
    path: str
    handler: Callable[[web.Request], Awaitable[web.Response]]
    purpose: str
    needs_queue: bool = False


ROUTES: tuple[Route, ...] = (
    Route("POST", "/prove", prove, "Make a proof."),
    Route("GET", "/prove/status", jobs.status, "Return the state of a job.", needs_queue=True),
    Route("DELETE", "/prove/status", jobs.cancel, "Cancel a job.", needs_queue=True),
    Route("POST", "/queue/add", submit.add, "Queue a request of any circuit.", needs_queue=True),
    Route("GET", "/queue/stats", queue_routes.stats, "Return the number of jobs by queue.", needs_queue=True),
    Route("GET", "/queue/health", queue_routes.health, "Return the number of jobs and a verdict.", needs_queue=True),
    Route("POST", "/queue/cleanup", queue_routes.cleanup, "Run all clean-ups of the queue now.", needs_queue=True),
    Route("GET", "/health", health, "Report that the process is alive."),
    Route("GET", "/version", about.version, "Return the versions of the interface, this program and its kernel."),
    Route("GET", "/openapi.json", about.openapi, "Describe this interface."),
    Route("GET", "/docs", about.docs, "Describe this interface as a page."),
    Route("GET", "/admin/keys", about.keys, "List the installed proving keys; needs the administrator role."),
    Route("POST", "/admin/reload", about.reload, "Reload the API key file; needs the administrator role."),
)
