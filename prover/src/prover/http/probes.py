"""Liveness on the API address, and the probes of the metrics address."""

from collections.abc import Mapping

from aiohttp import web

from prover.http.state import ServerState
from shared.metrics import Probe


async def health(_: web.Request) -> web.Response:
    """Answer that the process is alive, whatever its keys or load; byte for byte the reference's answer."""
    return web.Response(body=b'{"status":"ok"}', headers={"Content-Type": "text/plain; charset=utf-8"})


def probes(state: ServerState) -> Mapping[str, Probe]:
    """Return the probes of a server by path; ``/readyz`` says whether it could prove anything now."""

    def ready() -> tuple[bool, str]:
        if state.draining:
            return False, "not ready: shutting down"
        installed = len(state.keys.installed())
        if not installed:
            return False, f"not ready: no proving keys in {state.settings.keys.directory}"
        return True, f"ready: {installed} proving keys installed"

    return {"/livez": lambda: (True, "alive"), "/readyz": ready}
