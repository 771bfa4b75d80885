"""Readings of indexers and provers for the dashboard: lag, queue of a real prover, and services that lie or fail."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import redis_server
from aiohttp import web
from aiohttp.test_utils import TestServer
from dashboard_views import activity, inputs
from scripted_node import serving
from service_process import running_service
from skipping import skip_or_fail
from start_options import NOWHERE, Network, chosen

from forester.api.service_readings import ServiceReadings
from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RpcPool
from forester.dashboard.own_activity import own_activity
from forester.dashboard.page import Renderer
from forester.dashboard.view import view_of
from forester.errors import EndpointTimedOut
from forester.observability.health import HealthBoard
from forester.observability.metrics import Metrics
from forester.observability.probes import Probes
from forester.observability.service_records import INDEXER, NODE, PROVER, ServiceRecord, ServiceRecords
from forester.prover_client.client import PROOF_OBSOLETE, FinishedProof, ProverClient, ProverTimes
from forester.prover_client.endpoints import ProverEndpoints
from shared.requests.circuit_id import CircuitKind
from shared.requests.proof_wire import BatchAppendRequest

SLOT = 5000
KEY = "a-key-of-sixteen-characters"
VECTORS = Path(__file__).resolve().parents[4] / "prover" / "tests" / "vectors" / "prover"
BATCHES = sorted(VECTORS.glob("batch_*_10.json"))


async def read(records: ServiceRecords, *words: str, times: int = 1) -> None:
    """Read the services that a command line names, next to a node at SLOT."""
    node = Network(height=SLOT)
    trace = records.trace(INDEXER, PROVER)
    async with (
        serving(node),
        RpcPool([node.url]) as pool,
        aiohttp.ClientSession(trace_configs=[trace]) as observed,
        aiohttp.ClientSession() as silent,
    ):
        readings = ServiceReadings(chosen(*words), RpcClient(pool), records)
        for _ in range(times):
            await readings.read(observed, silent)


def added(records: ServiceRecords, role: str, url: str) -> ServiceRecord:
    record = records.add(role, url)
    assert record is not None
    return record


@contextlib.asynccontextmanager
async def served(answer: Callable[[web.Request], Any]) -> AsyncIterator[str]:
    async def handle(request: web.Request) -> web.Response:
        found = answer(request)
        response: web.Response = await found if asyncio.iscoroutine(found) else found
        return response

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handle)
    async with TestServer(app) as server:
        yield str(server.make_url("/")).rstrip("/")


def indexer_at(slot: int) -> Callable[[web.Request], Any]:
    async def answer(request: web.Request) -> web.Response:
        asked = json.loads(await request.read())
        return web.json_response({"jsonrpc": "2.0", "id": asked["id"], "result": slot})

    return answer


@pytest.mark.parametrize(("slot", "lag"), [(SLOT - 40, 40), (SLOT, 0), (SLOT + 3, 0)])
async def test_readings__indexer__is_as_many_slots_behind_as_the_node_is_ahead(slot: int, lag: int) -> None:
    records = ServiceRecords()
    async with served(indexer_at(slot)) as url:
        record = added(records, INDEXER, url)
        await read(records, "--indexer-url", url, "--processor-mode", "v1")
    assert (record.lag_slots, record.failures, len(record.seconds)) == (lag, 0, 1)


async def test_readings__indexer_that_goes_away__has_no_lag_and_an_error() -> None:
    records = ServiceRecords()
    record = added(records, INDEXER, NOWHERE)
    record.lag_slots = 7
    await read(records, "--indexer-url", NOWHERE, "--processor-mode", "v1", times=2)
    assert record.failures == 2
    assert record.error
    assert str(record.lag_slots) == "None", "no number of an earlier reading is left"


@pytest.mark.parametrize(
    ("stats", "queued"),
    [
        (web.Response(text='{"total_pending": 12}'), 12),
        (web.Response(text='{"total_pending": -1}'), 0),
        (web.Response(text='{"total_pending": "many"}'), None),
        (web.Response(text="not JSON"), None),
        (web.Response(text='{"total_pending": 1}' + " " * (1 << 16)), 1),
        (web.Response(text=" " * (1 << 16) + '{"total_pending": 1}'), None),
        (web.Response(status=404), None),
        (web.Response(status=500), None),
    ],
)
async def test_readings__any_answer_about_the_queue__is_a_number_or_none_and_no_failure(
    stats: web.Response, queued: int | None
) -> None:
    keys = []

    def answer(request: web.Request) -> web.Response:
        keys.append(request.headers.get("X-API-Key"))
        return stats if request.path == "/queue/stats" else web.json_response({"status": "ok"})

    records = ServiceRecords()
    async with served(answer) as url:
        record = added(records, PROVER, url)
        record.queued = 99
        await read(records, "--prover-url", url, "--prover-api-key", KEY)
    assert (record.queued, record.failures) == (queued, 0)
    assert keys == [KEY, KEY]


async def test_readings__redirect__is_not_followed() -> None:
    def answer(request: web.Request) -> web.Response:
        if request.path == "/queue/stats":
            return web.Response(status=302, headers={"Location": "/elsewhere"})
        return web.json_response({"status": "ok", "total_pending": 5})

    records = ServiceRecords()
    async with served(answer) as url:
        record = added(records, PROVER, url)
        await read(records, "--prover-url", url)
    assert record.queued is None


async def test_readings__service_that_never_answers__delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forester.api.service_readings._LIMIT_S", 0.2)
    released = asyncio.Event()

    async def hang(_: web.Request) -> web.Response:
        await released.wait()
        return web.Response()

    records = ServiceRecords()
    async with served(hang) as stalled, served(indexer_at(SLOT - 1)) as url:
        prover, indexer = added(records, PROVER, stalled), added(records, INDEXER, url)
        async with asyncio.timeout(10):
            await read(records, "--indexer-url", url, "--prover-url", stalled)
        released.set()
    assert (prover.queued, indexer.lag_slots) == (None, 1)
    assert prover.failures == 0, "a drain also cancels calls that have just begun"


async def test_readings__services_that_never_answer__fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forester.api.service_readings._LIMIT_S", 0.2)
    monkeypatch.setattr("forester.observability.service_records._UNANSWERED_S", 0.1)
    released = asyncio.Event()

    async def hang(_: web.Request) -> web.Response:
        await released.wait()
        return web.Response()

    records = ServiceRecords()
    async with served(hang) as node, served(hang) as indexer, served(hang) as prover:
        services = [added(records, *item) for item in ((NODE, node), (INDEXER, indexer), (PROVER, prover))]
        async with RpcPool([node], traces=[records.trace(NODE)]) as pool:
            with pytest.raises(EndpointTimedOut):
                await pool.call("getSlot", [], int, timeout_s=0.2, deadline_s=0.2)
        await read(records, "--indexer-url", indexer, "--prover-url", prover, times=2)
        released.set()
    assert [service.failures for service in services] == [1, 2, 2]
    assert all(str(service.error).startswith("no answer within 0.") for service in services)


async def proof_cancelled_after(
    until: Coroutine[Any, Any, object], records: ServiceRecords, url: str, *, max_wait_s: float
) -> asyncio.Task[FinishedProof]:
    """Request a proof, cancel it as obsolete once ``until`` or the proof has ended, and return its ended task."""
    times = ProverTimes(max_wait_s=max_wait_s, first_poll_s=0.0)
    async with aiohttp.ClientSession(trace_configs=[records.trace(PROVER)]) as session:
        client = ProverClient(session, ProverEndpoints(dict.fromkeys(CircuitKind, url)), times=times)
        task = asyncio.create_task(client.prove(BatchAppendRequest(height=32, batch_size=10)))
        await asyncio.wait([task, asyncio.create_task(until)], timeout=30, return_when=asyncio.FIRST_COMPLETED)
        task.cancel(PROOF_OBSOLETE)
        await asyncio.wait([task], timeout=30)
    return task


@pytest.mark.parametrize(("seconds", "max_wait_s", "failures"), [(30, 0.3, 1), (0.3, 30, 0)])
async def test_proof_request__that_is_never_answered__fails_at_its_deadline_but_not_when_it_is_cancelled(
    monkeypatch: pytest.MonkeyPatch, seconds: float, max_wait_s: float, failures: int
) -> None:
    monkeypatch.setattr("forester.observability.service_records._UNANSWERED_S", 0.1)
    released = asyncio.Event()

    async def hang(_: web.Request) -> web.Response:
        await released.wait()
        return web.Response()

    records = ServiceRecords()
    async with served(hang) as url:
        record = added(records, PROVER, url)
        task = await proof_cancelled_after(asyncio.sleep(seconds), records, url, max_wait_s=max_wait_s)
        released.set()
    assert task.cancelled() is not bool(failures)
    assert record.failures == failures
    assert str(record.error).startswith("no answer within 0." if failures else "None")


@pytest.mark.parametrize(("status", "failures"), [(404, 0), (200, 0), (500, 1)])
async def test_proof_request__cancelled__is_no_failure_of_a_prover_that_does_not_know_the_job(
    status: int, failures: int
) -> None:
    methods, polled = [], asyncio.Event()

    def answer(request: web.Request) -> web.Response:
        methods.append(request.method)
        if request.method == "DELETE":
            return web.json_response({"code": "job_not_found", "message": "no such job"}, status=status)
        if request.method == "GET":
            polled.set()
        return web.json_response({"job_id": "job", "status": "queued"}, status=202)

    records = ServiceRecords()
    async with served(answer) as url:
        record = added(records, PROVER, url)
        task = await proof_cancelled_after(polled.wait(), records, url, max_wait_s=30)
    assert task.cancelled()
    assert methods[-1] == "DELETE"
    assert record.failures == failures


async def test_readings__real_prover_with_waiting_jobs__is_the_queue_that_the_page_shows(tmp_path: Path) -> None:
    if missing := redis_server.missing():
        skip_or_fail(missing)
    metrics = Metrics()
    with redis_server.running_redis(tmp_path) as redis:
        words = ("--keys-dir", str(tmp_path), "--no-workers", "--redis-url", redis.url, "--json-logging")
        addresses = ("--prover-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0")
        with running_service(tmp_path / "log", *words, *addresses, PROVER_API_KEY=KEY) as prover:
            url = f"http://127.0.0.1:{prover.api_port}"
            record = added(metrics.services, PROVER, url)
            found = []
            async with aiohttp.ClientSession(headers={"X-API-Key": KEY}) as session:
                for body in (None, *(path.read_bytes() for path in BATCHES)):
                    if body is not None:
                        async with session.post(url + "/prove", data=body) as response:
                            assert response.status == 202, await response.text()
                    await read(metrics.services, "--prover-url", url, "--prover-api-key", KEY)
                    found.append(record.queued)
            assert len(BATCHES) == 3
            assert found == [0, 1, 2, 3]
            assert shown(metrics) == "3 waiting"
            await read(metrics.services, "--prover-url", url, "--prover-api-key", "another-key-of-16")
            assert record.queued is None
    assert record.failures == 0


def shown(metrics: Metrics) -> str:
    """Return the text of the prover's queue in the panel of services."""
    own = own_activity("payer", metrics, HealthBoard(), Probes(), trees=(), budget=None, history=None)
    view = view_of(inputs(activities=[activity(services=own.services)]))
    panel = json.loads(Renderer().live(view).body)["panels"]["services"]
    return str(panel.split("<dt>queue</dt><dd>")[1].split("</dd>")[0])
