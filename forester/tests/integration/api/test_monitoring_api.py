"""The monitoring API over real sockets: shapes, codes, limits, ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from network_states import FORESTERS, STATE_V2, network

from forester.api import app, metrics_json, monitoring
from forester.api.app import serving_api
from forester.api.metrics_json import PrometheusSource
from forester.api.routes import Monitoring
from forester.errors import EndpointUnreachable, SettingsInvalid
from forester.network_status.snapshot import SnapshotKeeper
from forester.network_status.state import NetworkState
from forester.observability.health import HealthBoard
from forester.observability.metrics import Metrics
from forester.settings import Settings
from shared.process.retries import Backoff

ROUTES = ("/", "/startupz", "/livez", "/health", "/status", "/metrics", "/metrics/json")
STATUS = {
    "slot": int,
    "current_active_epoch": int,
    "current_registration_epoch": int,
    "active_epoch_progress": int,
    "active_phase_length": int,
    "active_epoch_progress_percentage": float,
    "hours_until_next_epoch": int,
    "registration_is_open": bool,
    "slots_until_next_registration": int,
    "hours_until_next_registration": int,
    "active_epoch_foresters": list,
    "registration_epoch_foresters": list,
    "trees": list,
    "current_light_slot": int,
    "light_slot_length": int,
    "slots_until_next_light_slot": int,
    "total_light_slots": int,
    "total_trees": int,
    "active_trees": int,
    "rolled_over_trees": int,
    "total_pending_batches": int,
    "total_pending_items": int,
    "aggregate_queue_stats": dict,
}
TREE = {
    *("tree_type", "merkle_tree", "queue", "fullness_percentage", "next_index", "capacity", "height", "threshold"),
    *("is_rolledover", "queue_length", "queue_capacity", "v2_queue_info", "assigned_forester", "schedule", "owner"),
}
V2_QUEUE = {
    *("next_index", "pending_batch_index", "batch_size", "zkp_batch_size", "batches", "input_pending_batches"),
    *("output_pending_batches", "input_total_zkp_batches", "output_total_zkp_batches"),
    *("input_items_in_current_zkp_batch", "output_items_in_current_zkp_batch"),
}
BATCH = {
    *("batch_index", "batch_state", "num_inserted", "current_index", "pending", "items_in_current_zkp_batch"),
}
AGGREGATE = {
    *("state_v1_total_pending", "address_v1_total_pending", "state_v2_input_pending", "state_v2_output_pending"),
    *("address_v2_input_pending", "state_v2_input_pending_batches", "state_v2_output_pending_batches"),
    "address_v2_input_pending_batches",
}


class Api:
    """A served API, and what it shows."""

    def __init__(self) -> None:
        self.state: NetworkState | Exception = network()
        self.metrics = Metrics()
        self.board = HealthBoard()
        self.keeper = SnapshotKeeper(self._read, self.metrics, self.board)
        self.url = ""
        self.session: aiohttp.ClientSession

    async def _read(self) -> NetworkState:
        if isinstance(self.state, Exception):
            raise self.state
        return self.state

    async def ask(self, path: str, method: str = "GET") -> tuple[int, Any, aiohttp.ClientResponse]:
        async with self.session.request(method, self.url + path) as response:
            body = await response.read()
            if body and response.content_type == "application/json":
                return response.status, json.loads(body), response
            return response.status, body.decode(), response


@contextlib.asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[Api]:
    api = Api()
    state = Monitoring(api.metrics, api.board, api.keeper)
    async with (
        serving_api(Settings(**{"api_server_port": 0} | settings), state) as address,
        aiohttp.ClientSession() as session,
    ):
        assert address is not None
        api.url, api.session = f"http://127.0.0.1:{address[1]}", session
        yield api


async def test_status__before_the_first_snapshot__is_503_and_says_why() -> None:
    async with serving() as api:
        code, answer, response = await api.ask("/status")
        assert (code, answer) == (503, {"error": "the network has not been read yet"})
        assert response.headers["Retry-After"] == "5"
        api.state = EndpointUnreachable("RPC node http://u:passw0rd@h/?api-key=s3cr3tkey cannot be reached")
        await api.keeper.refresh()
        code, answer, _ = await api.ask("/status")
        assert code == 503
        assert "cannot be reached" in answer["error"]
        assert "passw0rd" not in answer["error"]


async def test_status__after_a_snapshot__has_the_shape_of_the_reference() -> None:
    async with serving() as api:
        await api.keeper.refresh()
        code, answer, response = await api.ask("/status")
        assert code == 200
        assert response.headers["Age"] == "0"
        assert {name: type(value) for name, value in answer.items()} == STATUS
        assert [set(tree) for tree in answer["trees"]] == [TREE] * 3
        v1, v2, address = answer["trees"]
        assert (v1["queue_length"], v1["queue_capacity"], v1["v2_queue_info"]) == (4, 28_807, None)
        assert (v2["queue_length"], v2["queue_capacity"]) == (None, None)
        assert set(v2["v2_queue_info"]) == set(address["v2_queue_info"]) == V2_QUEUE
        assert [set(batch) for batch in v2["v2_queue_info"]["batches"]] == [BATCH] * 2
        assert set(answer["aggregate_queue_stats"]) == AGGREGATE
        assert answer["active_epoch_foresters"][0] == {"authority": str(FORESTERS[0]), "balance_sol": 1.0}
        assert (answer["slot"], answer["current_active_epoch"], answer["current_light_slot"]) == (550, 2, 5)
        assert len(v2["schedule"]) == answer["total_light_slots"] == 20
        assert v2["assigned_forester"] == answer["active_epoch_foresters"][v2["schedule"][5]]["authority"]
        assert (v2["v2_queue_info"]["output_pending_batches"], v2["v2_queue_info"]["input_pending_batches"]) == (2, 1)
        assert v2["v2_queue_info"]["output_items_in_current_zkp_batch"] == 2


async def test_status__node_goes_away__keeps_the_last_snapshot_with_its_age_and_the_error() -> None:
    async with serving() as api:
        await api.keeper.refresh()
        _, before, _ = await api.ask("/status")
        api.state = EndpointUnreachable("RPC node h cannot be\nreached: ✗")
        await api.keeper.refresh()
        code, answer, response = await api.ask("/status")
        assert (code, answer) == (200, before)
        assert response.headers["X-Snapshot-Error"] == "RPC node h cannot be reached:"


async def test_health__fine_and_not__is_the_reference_s_answer_or_the_reasons() -> None:
    async with serving() as api:
        async with api.session.get(api.url + "/health") as response:
            assert (response.status, await response.read()) == (200, b'{"status":"ok"}')
            assert response.content_type == "application/json"
        api.board.report("funds", "insufficient funds: top it up")
        api.board.task_failed("discovery", 3, "no answer")
        code, answer, _ = await api.ask("/health")
        assert code == 503
        assert answer["status"] == "unhealthy"
        assert answer["reasons"][0] == "insufficient funds: top it up"
        assert "discovery failed 3 times" in answer["reasons"][1]
        assert [problem["condition"] for problem in answer["problems"]] == ["funds", "task discovery"]
        api.board.clear("funds")
        api.board.clear("task discovery")
        assert (await api.ask("/health"))[0] == 200


async def test_metrics__scraped__are_ours_and_those_of_the_process() -> None:
    async with serving() as api:
        await api.keeper.refresh()
        api.metrics.count_processed(2, 10, 2.0)
        code, text, response = await api.ask("/metrics")
        assert code == 200
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert f'queue_length{{tree_pubkey="{STATE_V2}",tree_type="StateV2.Append"}} 22.0' in text
        assert 'forester_transactions_processed_total{epoch="2"} 10.0' in text
        assert "\nprocess_resident_memory_bytes " in text
        names = re.findall(r"^# TYPE (\S+)", text, flags=re.MULTILINE)
        assert len(names) == len(set(names))


async def test_metrics_json__this_process_has_counted__is_of_the_registry() -> None:
    async with serving() as api:
        code, answer, _ = await api.ask("/metrics/json")
        assert code == 200
        assert answer.pop("cached_at") > 1_700_000_000
        assert answer == {
            "transactions_processed_total": {},
            "transaction_rate": {},
            "last_run_timestamp": 0,
            "forester_balances": {},
            "queue_lengths": {},
            "source": "none",
        }
        await api.keeper.refresh()
        api.metrics.count_processed(2, 10, 2.0)
        api.metrics.last_run.set(1_700_000_001.5)
        _, answer, _ = await api.ask("/metrics/json")
        assert answer["transactions_processed_total"] == {"2": 10}
        assert answer["transaction_rate"] == {"2": 5.0}
        assert answer["last_run_timestamp"] == 1_700_000_001
        assert answer["forester_balances"][str(FORESTERS[0])] == 1.0
        assert answer["queue_lengths"][str(STATE_V2)] == 22 + 15
        assert answer["source"] == "registry"


@dataclass
class Prometheus:
    """A Prometheus server that knows two foresters."""

    url: str = ""
    broken: bool = False
    query: str = ""

    async def handle(self, request: web.Request) -> web.Response:
        self.query = request.query["query"]
        assert request.query["api-key"] == "s3cr3tkey"
        if self.broken:
            return web.Response(text="{}")
        series = [
            ("forester_transactions_processed_total", {"epoch": "2", "instance": "a"}, "10"),
            ("forester_transactions_processed_total", {"epoch": "2", "instance": "b"}, "5"),
            ("forester_transaction_rate", {"epoch": "2"}, "NaN"),
            ("queue_length", {"tree_pubkey": "t", "tree_type": "AddressV2", "instance": "a"}, "7"),
            ("queue_length", {"tree_pubkey": "t", "tree_type": "AddressV2", "instance": "b"}, "7"),
            ("forester_last_run_timestamp", {}, "1700000000.9"),
        ]
        result = [{"metric": {"__name__": name} | labels, "value": [1.5, value]} for name, labels, value in series]
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}})


@contextlib.asynccontextmanager
async def prometheus() -> AsyncIterator[Prometheus]:
    server = Prometheus()
    application = web.Application()
    application.router.add_get("/prefix/api/v1/query", server.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/prefix/?api-key=s3cr3tkey"
        yield server
    finally:
        await runner.cleanup()


async def test_metrics_json__nothing_counted_here__is_of_prometheus() -> None:
    async with prometheus() as source, serving(prometheus_url=source.url) as api:
        await api.keeper.refresh()
        async with asyncio.timeout(60):
            while (answer := (await api.ask("/metrics/json"))[1])["source"] != "prometheus":  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert answer["transactions_processed_total"] == {"2": 15}
        assert answer["transaction_rate"] == {}
        assert answer["queue_lengths"] == {"t": 7}
        assert answer["last_run_timestamp"] == 1_700_000_000
        assert "forester_sol_balance" in source.query
        api.metrics.count_processed(2, 1, 1)
        assert (await api.ask("/metrics/json"))[1]["source"] == "registry"


async def test_prometheus__comes_and_goes__is_logged_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[str] = []

    class Log:
        def warning(self, event: str, **_: object) -> None:
            logged.append(event)

        info = warning

    async def three(_: aiohttp.ClientSession) -> None:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome

    outcomes = [EndpointUnreachable("away"), EndpointUnreachable("away"), None, None, asyncio.CancelledError()]
    monkeypatch.setattr(metrics_json, "_log", Log())
    source = PrometheusSource("http://127.0.0.1:1/")
    async with aiohttp.ClientSession() as session:
        with pytest.raises(EndpointUnreachable, match="Prometheus"):
            await source.refresh(session)
    monkeypatch.setattr(source, "refresh", three)
    with pytest.raises(asyncio.CancelledError):
        await source.run(every_s=0)
    assert logged == ["prometheus_failed", "prometheus_recovered"]


async def test_metrics_json__prometheus_is_of_no_use__is_what_gauges_report() -> None:
    async with prometheus() as source:
        source.broken = True
        async with serving(prometheus_url=source.url) as api:
            await api.keeper.refresh()
            async with asyncio.timeout(60):
                while not source.query:  # noqa: ASYNC110 - the server has no event for it
                    await asyncio.sleep(0.01)
            assert (await api.ask("/metrics/json"))[1]["source"] == "registry"


@pytest.mark.parametrize("path", ROUTES)
async def test_every_path__head_and_options__have_no_body(path: str) -> None:
    async with serving() as api:
        await api.keeper.refresh()
        code, body, response = await api.ask(path, "HEAD")
        assert (code, body) == (200, "")
        length = int(response.headers["Content-Length"])
        assert length > 10
        assert response.headers["Access-Control-Allow-Origin"] == "*"
        assert response.headers["Server"] == "forester"
        code, body, response = await api.ask(path, "OPTIONS")
        assert (code, body) == (204, "")
        assert "GET" in response.headers["Access-Control-Allow-Methods"]


async def test_index__names_every_path() -> None:
    async with serving() as api:
        code, text, response = await api.ask("/")
        assert code == 200
        assert response.content_type == "text/plain"
        assert all(path in text for path in ROUTES)


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [("GET", "/compressed?token=s3cr3t", 404), ("GET", "/health/", 404), ("POST", "/status", 405), ("PUT", "/x", 404)],
)
async def test_unknown_path_or_method__is_answered_in_json_without_the_request(
    method: str, path: str, code: int
) -> None:
    async with serving() as api:
        found, answer, response = await api.ask(path, method)
        assert found == code
        assert set(answer) == {"error"}
        assert "s3cr3t" not in str(answer)
        assert code != 405 or response.headers["Allow"] == "GET, HEAD, OPTIONS"


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /%s HTTP/1.1\r\nHost: h\r\n\r\n" % (b"a" * 20_000), 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\nX: %s\r\n\r\n" % (b"a" * 20_000), 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\n%s\r\n" % b"".join(b"X%d: 1\r\n" % number for number in range(500)), 400),
    ],
)
async def test_broken_http__is_refused_and_the_connection_closed(sent: bytes, code: int) -> None:
    async with serving() as api:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(api.url.rsplit(":", 1)[1]))
        writer.write(sent)
        answer = await asyncio.wait_for(reader.read(), 60)
        writer.close()
        assert re.match(rb"HTTP/1\.[01] %d " % code, answer)
        assert b"aiohttp" not in answer
        assert json.loads(answer.split(b"\r\n\r\n")[1]) == {"error": "Bad Request"}
        assert (await api.ask("/health"))[0] == 200


async def test_answer__that_cannot_be_made__is_500_without_the_reason_and_others_continue() -> None:
    async with serving() as api:

        def broken() -> float:
            raise RuntimeError("s3cr3t")

        api.metrics.in_flight.set_function(broken)
        code, answer, _ = await api.ask("/metrics")
        assert (code, answer) == (500, {"error": "Internal Server Error"})
        assert (await api.ask("/health"))[0] == 200


@pytest.mark.parametrize("sent", [b"", b"GET /health HTTP/1.1\r\nHost:", b"GET /health HTTP/1.1\r\nHost: h\r\n\r\n"])
async def test_connection__that_says_no_more__is_closed(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "_IDLE_S", 0.1)
    async with serving() as api:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(api.url.rsplit(":", 1)[1]))
        writer.write(sent)
        answer = await asyncio.wait_for(reader.read(), 60)
        assert answer.startswith(b"HTTP/1.1 200 ") == sent.endswith(b"\r\n\r\n")
        writer.close()


@pytest.mark.parametrize("sent", [b"GET /health HTTP/1.1\r\nHo", b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n" * 2000])
async def test_connections__held_by_clients_that_trickle_or_never_read__leave_probes_their_answers(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "MAXIMUM_CONNECTIONS", 8)
    async with serving() as api:
        port = int(api.url.rsplit(":", 1)[1])
        held = []
        for _ in range(40):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            held.append(writer)
        for path in ("/livez", "/health", "/livez"):
            assert (await asyncio.wait_for(api.ask(path), 10))[0] == 200
        for writer in held:
            writer.transport.abort()


async def test_connections__more_than_the_limit__end_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "MAXIMUM_CONNECTIONS", 3)
    async with serving() as api:
        port = int(api.url.rsplit(":", 1)[1])
        held = []
        for _ in range(4):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /health HTTP/1.1\r\nHost: h\r\n\r\n")
            assert b"200 OK" in await asyncio.wait_for(reader.readline(), 60)
            held.append((reader, writer))
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(held[0][0].read(), 60)
        assert held[0][0].at_eof() or held[0][0].exception() is not None
        assert not held[1][0].at_eof()
        for _, writer in held:
            writer.transport.abort()


async def test_port__taken__is_an_error_that_names_the_option() -> None:
    async with serving() as api:
        port = int(api.url.rsplit(":", 1)[1])
        state = Monitoring(api.metrics, api.board, api.keeper)
        with pytest.raises(SettingsInvalid) as raised:
            async with serving_api(Settings(api_server_port=port), state):
                raise AssertionError("never served")
        assert raised.value.detail == (
            f"--api-server-port: cannot listen on 127.0.0.1:{port}: Address already in use; choose another port"
        )


async def test_port__not_set__serves_nothing() -> None:
    api = Api()
    async with serving_api(Settings(), Monitoring(api.metrics, api.board, api.keeper)) as address:
        assert address is None


@pytest.mark.parametrize(("public", "host"), [(False, "127.0.0.1"), (True, "::")])
async def test_address__public_or_not__is_loopback_unless_asked_for(public: bool, host: str) -> None:
    api = Api()
    settings = Settings(api_server_port=0, api_server_public_bind=public)
    async with serving_api(settings, Monitoring(api.metrics, api.board, api.keeper)) as address:
        assert address is not None
        assert address[0] == host
        reader, writer = await asyncio.open_connection("127.0.0.1", address[1])
        writer.write(b"GET /health HTTP/1.1\r\nHost: h\r\n\r\n")
        answer = await asyncio.wait_for(reader.readuntil(b'{"status":"ok"}'), 60)
        assert answer.startswith(b"HTTP/1.1 200 ")
    assert await asyncio.wait_for(reader.read(), 60) == b"", "the end of the server ends its connections"
    writer.close()


async def test_watching__a_part_of_it_crashes__begins_again_and_reports_to_the_board(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(monitoring, "_RESTARTS", Backoff(0.001, 0.001))
    board = HealthBoard()
    red = asyncio.Event()
    board.subscribe(lambda condition, _: red.set() if condition == "task part" else None)

    async def crash() -> None:
        raise RuntimeError("a bug")

    task = asyncio.create_task(monitoring._supervised("part", crash, board))
    await asyncio.wait_for(red.wait(), 60)
    task.cancel()
    await asyncio.wait([task])
    (problem,) = board.problems
    assert problem.reason == "the task part failed 3 times in a row: RuntimeError"
