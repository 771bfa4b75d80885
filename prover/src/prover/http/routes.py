"""Every route of the API address. Paths match exactly; other methods answer 405, other paths 404."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

from prover.http import about
from prover.http.probes import health
from prover.http.prove import prove


@dataclass(frozen=True)
class Route:
    """One row of the table."""

    method: str
    path: str
    handler: Callable[[web.Request], Awaitable[web.Response]]
    purpose: str


ROUTES: tuple[Route, ...] = (
    Route("POST", "/prove", prove, "Make a proof."),
    Route("GET", "/health", health, "Tell that the process is alive."),
    Route("GET", "/version", about.version, "Tell the versions of the interface, this program and its kernel."),
    Route("GET", "/openapi.json", about.openapi, "Describe this interface."),
    Route("GET", "/admin/keys", about.keys, "List the installed proving keys; needs the administrator role."),
    Route("POST", "/admin/reload", about.reload, "Read the API key file again; needs the administrator role."),
)
