"""Handlers of the monitoring API, which answer from memory at once."""

import json
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from aiohttp import web
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, generate_latest

from forester.api.dashboard_routes import Dashboard
from forester.api.merging import merged_compressible, merged_health, merged_metrics
from forester.api.metrics_json import PrometheusSource, metrics_object
from forester.api.upstreams import Upstreams
from forester.compressible.view import CompressibleView
from forester.network_status.snapshot import SnapshotKeeper
from forester.observability.health import HealthBoard
from forester.observability.metrics import Metrics
from forester.observability.probes import Probes
from shared.process.metrics import new_registry

_RETRY_AFTER_S = 5


@dataclass(frozen=True)
class Monitoring:
    """Sources of the API: the daemon's metrics, its problems, and the snapshot of the network."""

    metrics: Metrics
    board: HealthBoard
    snapshots: SnapshotKeeper
    probes: Probes = field(default_factory=Probes)
    compressible: CompressibleView | None = None
    upstreams: Upstreams | None = None
    """Other foresters, whose answers are merged in place of this process's own."""
    prometheus: PrometheusSource | None = None
    dashboard: Dashboard | None = None
    """The page; without it only the other paths are served."""
    process: CollectorRegistry = field(default_factory=new_registry)
    """Metrics of the process and the interpreter."""


MONITORING = web.AppKey("monitoring", Monitoring)

INDEX = """\
Monitoring of a forester. All paths answer GET and HEAD.

/dashboard     a page for people
/startupz      200 {"status":"started"}, as soon as the API answers
/livez         200 {"status":"alive"}, or 503: restart the process
/readyz        200 {"status":"ready"} once the start has succeeded, or 503 with what it waits for
/health        200 {"status":"ok"}, or 503 with the reasons
/status        epochs, foresters, trees and queues as JSON; 503 until they have been read
/metrics       metrics in the text format of Prometheus
/metrics/json  a few of them as JSON
/compressible  numbers of compressible accounts as JSON
/activity      recent work, services and money of this forester as JSON
"""


async def index(request: web.Request) -> web.Response:
    """Name the paths; a browser is sent to the page."""
    if request.app[MONITORING].dashboard is not None and "text/html" in request.headers.get("Accept", ""):
        return web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": "/dashboard"})
    return web.Response(text=INDEX)


async def startupz(_: web.Request) -> web.Response:
    """Return 200: the API answers once the journal is open."""
    return as_json({"status": "started"})


async def livez(request: web.Request) -> web.Response:
    """Return 503 if tasks have died, so that a restart helps. A blocked event loop gives no answer at all."""
    dead = request.app[MONITORING].probes.dead_tasks
    if not dead:
        return as_json({"status": "alive"})
    return as_json({"status": "dead", "tasks": list(dead)}, HTTPStatus.SERVICE_UNAVAILABLE)


async def readyz(request: web.Request) -> web.Response:
    """Return 200 once the start has succeeded, until a stop is requested."""
    probes = request.app[MONITORING].probes
    if probes.draining:
        return as_json({"status": "draining"}, HTTPStatus.SERVICE_UNAVAILABLE)
    if probes.missing:
        content = {"status": "starting", "waiting_for": list(probes.missing)}
        return as_json(content, HTTPStatus.SERVICE_UNAVAILABLE)
    return as_json({"status": "ready"})


async def health(request: web.Request) -> web.Response:
    """Return 200 in the reference's format if the forester is fit, else 503 with the reasons."""
    state = request.app[MONITORING]
    problems = state.board.problems
    if state.upstreams is not None:
        merged = merged_health(state.upstreams.views, [problem.reason for problem in problems])
        return as_json(merged, HTTPStatus.OK if merged["status"] == "ok" else HTTPStatus.SERVICE_UNAVAILABLE)
    if not problems:
        return as_json({"status": "ok"})
    content = {
        "status": "unhealthy",
        "reasons": [problem.reason for problem in problems],
        "problems": [
            {"condition": problem.condition, "since": int(problem.since), "severity": problem.severity}
            for problem in problems
        ],
    }
    return as_json(content, HTTPStatus.SERVICE_UNAVAILABLE)


async def status(request: web.Request) -> web.Response:
    """Return the last good snapshot, with its age in seconds as Age and the last failure as X-Snapshot-Error."""
    keeper = request.app[MONITORING].snapshots
    snapshot = keeper.latest
    if snapshot is None:
        reason = f": {keeper.error}" if keeper.error else ""
        refused = as_json({"error": f"the network has not been read yet{reason}"}, HTTPStatus.SERVICE_UNAVAILABLE)
        refused.headers["Retry-After"] = str(_RETRY_AFTER_S)
        return refused
    state = request.app[MONITORING]
    summary = state.compressible.summary() if state.compressible is not None else None
    body = snapshot.status if summary is None else _with_member(snapshot.status, "compressible", summary)
    response = web.Response(body=body, content_type="application/json")
    response.headers["Age"] = str(int(keeper.age_s or 0))
    if keeper.error is not None:
        response.headers["X-Snapshot-Error"] = _one_line(keeper.error)
    return response


async def metrics(request: web.Request) -> web.Response:
    """Return all metrics, including those of the process."""
    state = request.app[MONITORING]
    text = state.metrics.exposition() + generate_latest(state.process)
    return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})


async def metrics_json(request: web.Request) -> web.Response:
    """Return a few metrics as JSON."""
    state = request.app[MONITORING]
    if state.upstreams is not None:
        return as_json(merged_metrics(state.upstreams.views))
    return as_json(metrics_object(state.metrics, state.prometheus))


async def compressible(request: web.Request) -> web.Response:
    """Return the numbers of compressible accounts, those of the last count."""
    return as_json(compressible_object(request.app[MONITORING]))


def compressible_object(state: Monitoring) -> dict[str, Any]:
    """Return the numbers of compressible accounts, of this forester or of those that it merges."""
    if state.upstreams is not None:
        return merged_compressible(state.upstreams.views)
    return (state.compressible or CompressibleView(state.metrics)).as_object()


def as_json(content: dict[str, Any], code: int = HTTPStatus.OK) -> web.Response:
    """Return an answer with a JSON body."""
    body = json.dumps(content, separators=(",", ":")).encode()
    return web.Response(status=code, body=body, content_type="application/json")


def _with_member(content: bytes, name: str, value: dict[str, Any]) -> bytes:
    """Return a JSON object of one member or more with another one, without decoding it."""
    return content.rstrip().removesuffix(b"}") + b"," + json.dumps({name: value}, separators=(",", ":")).encode()[1:]


def _one_line(text: str) -> str:
    """Return the part of a text that fits a header: printable ASCII, shortened."""
    return "".join(letter if " " <= letter <= "~" else " " for letter in text[:300]).strip()


ROUTES = {
    "/": index,
    "/startupz": startupz,
    "/livez": livez,
    "/readyz": readyz,
    "/health": health,
    "/status": status,
    "/metrics": metrics,
    "/metrics/json": metrics_json,
    "/compressible": compressible,
}
