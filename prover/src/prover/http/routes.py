"""Every route of the API address. Paths match exactly; other methods answer 405, other paths 404."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

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
    Route("POST", "/prove", prove, "make a proof"),
    Route("GET", "/health", health, "tell that the process is alive"),
)
