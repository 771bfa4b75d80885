"""The metrics address: exposition and probes."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import http.client
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from in_process_service import CONVERTED, Serve, circuit, open_store
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from prover.errors import DeviceUnavailable, SettingsInvalid
from prover.http.app import start_metrics_server
from prover.http.routes.probes import probes
from prover.http.server.metrics_server import MetricsServer
from prover.http.state import STATE
from prover.kernel.cancellation import CancelFlag
from prover.keys.catalogue.selection import CircuitSelection
from prover.keys.store.key_store import KeyStore
from prover.observability.metrics import Metrics
from prover.queue.store import JobStore
from prover.settings import HttpSettings
from shared.process.metrics import new_registry


def fetch(server: MetricsServer, path: str) -> tuple[int, str]:
    host, port = server.address
    try:
        with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_metrics__scraped__are_prometheus_text() -> None:
    registry = new_registry()
    Metrics(registry).requests.labels("inclusion", "ok").inc()
    server = MetricsServer(registry, "127.0.0.1", 0)
    try:
        status, text = fetch(server, "/metrics")
        families = {family.name for family in text_string_to_metric_families(text)}
        assert status == 200
        assert {"prover_proof_requests", "prover_active_jobs", "process_cpu_seconds"} <= families
        assert fetch(server, "/other")[0] == 404
    finally:
        server.close()


def test_metrics__asked_for_in_part_compressed_and_as_open_metrics__are_so() -> None:
    registry = new_registry()
    Metrics(registry).requests.labels("inclusion", "ok").inc()
    with contextlib.closing(MetricsServer(registry, "127.0.0.1", 0)) as server:
        host, port = server.address
        headers = {"Accept": "application/openmetrics-text; version=1.0.0", "Accept-Encoding": "gzip"}
        with contextlib.closing(http.client.HTTPConnection(host, port, timeout=10)) as connection:
            connection.request("GET", "/?name[]=prover_active_jobs", headers=headers)
            response = connection.getresponse()
            assert response.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
            assert response.headers["Content-Encoding"] == "gzip"
            text = gzip.decompress(response.read()).decode()
    assert text.splitlines()[-2:] == ["prover_active_jobs 0.0", "# EOF"]


@pytest.fixture
def idle_clients() -> Iterator[Callable[[tuple[str, int]], None]]:
    """Give a function that opens 300 connections to an address; each sends a byte of a header every second."""
    stopped = threading.Event()
    with contextlib.ExitStack() as stack:
        clients: list[socket.socket] = []

        def trickle() -> None:
            while not stopped.wait(1):
                for client in clients:
                    with contextlib.suppress(OSError):
                        client.send(b"x")

        def connect(address: tuple[str, int]) -> None:
            trickling = threading.Thread(target=trickle)
            trickling.start()
            stack.callback(trickling.join)
            stack.callback(stopped.set)
            for _ in range(300):
                client = stack.enter_context(socket.create_connection(address, 60))
                client.send(b"GET /livez HTTP/1.1\r\nX-Slow: ")
                clients.append(client)

        yield connect


async def test_metrics_server__next_to_hundreds_of_slow_clients__answers_probes_and_scrapes(
    serve: Serve, published_keys: KeyStore, idle_clients: Callable[[tuple[str, int]], None]
) -> None:
    state = (await serve(published_keys, http={"metrics_address": "127.0.0.1:0"})).app[STATE]

    def ask_often() -> None:
        idle_clients(server.address)
        for _ in range(5):
            for path in ("/livez", "/readyz", "/startupz", "/metrics"):
                assert fetch(server, path)[0] == 200

    with contextlib.closing(start_metrics_server(state, new_registry())) as server:
        await asyncio.to_thread(ask_often)


def test_probe__before_a_burst_of_connections__is_answered() -> None:
    probe = {"/livez": lambda: (True, "live")}
    with (
        contextlib.closing(MetricsServer(new_registry(), "127.0.0.1", 0, probe)) as server,
        contextlib.ExitStack() as clients,
    ):
        assert fetch(server, "/livez")[0] == 200
        may_accept = threading.Event()
        server._loop.call_soon_threadsafe(may_accept.wait, 60)
        first = clients.enter_context(socket.create_connection(server.address, 60))
        first.sendall(b"GET /livez HTTP/1.1\r\nHost: prover\r\n\r\n")
        for _ in range(400):
            clients.enter_context(socket.create_connection(server.address, 60))
        may_accept.set()
        assert first.recv(100).startswith(b"HTTP/1.1 200 OK")
        assert fetch(server, "/livez")[0] == 200


def test_metrics_server__with_a_client_that_trickles__ends_it_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prover.http.server.metrics_server._DEADLINE_S", 0.5)
    with (
        contextlib.closing(MetricsServer(new_registry(), "127.0.0.1", 0)) as server,
        socket.create_connection(server.address, 60) as slow,
    ):
        slow.send(b"GET /livez HTTP/1.1\r\nX-Slow: ")
        slow.settimeout(0.1)
        deadline = time.monotonic() + 20
        while True:
            assert time.monotonic() < deadline
            with contextlib.suppress(TimeoutError):
                try:
                    slow.send(b"x")
                    if slow.recv(1) == b"":
                        break
                except ConnectionError:
                    break


def test_metrics_server__full_of_connections__replaces_the_oldest_without_a_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("prover.http.server.metrics_server._MAXIMUM_CONNECTIONS", 3)
    running, hold = threading.Event(), threading.Event()

    def probe() -> tuple[bool, str]:
        running.set()
        hold.wait(60)
        return True, "held"

    with (
        contextlib.closing(MetricsServer(new_registry(), "127.0.0.1", 0, {"/held": probe})) as server,
        contextlib.ExitStack() as stack,
    ):
        asking, oldest, newer = (stack.enter_context(socket.create_connection(server.address, 60)) for _ in range(3))
        asking.send(b"GET /held HTTP/1.1\r\nHost: x\r\n\r\n")
        assert running.wait(60)
        newer.send(b"GET /metrics")
        assert fetch(server, "/metrics")[0] == 200
        assert oldest.recv(1) == b""
        hold.set()
        assert asking.recv(65536).startswith(b"HTTP/1.1 200 OK")
        newer.send(b" HTTP/1.1\r\nHost: x\r\n\r\n")
        assert newer.recv(65536).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize(
    "sent", [b"\0\xff\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n"]
)
def test_metrics_server__sent_bytes_that_are_not_http__answers_400_without_a_log_line(sent: bytes) -> None:
    with (
        contextlib.closing(MetricsServer(new_registry(), "127.0.0.1", 0)) as server,
        capture_logs() as lines,
        socket.create_connection(server.address, 60) as client,
    ):
        client.send(sent)
        assert b" 400 " in client.recv(65536).split(b"\r\n", 1)[0]
        assert fetch(server, "/metrics")[0] == 200
    assert not lines


def test_metrics_server__on_an_address_in_use__reports_it() -> None:
    server = MetricsServer(new_registry(), "127.0.0.1", 0)
    try:
        with pytest.raises(OSError, match="in use"):
            MetricsServer(new_registry(), *server.address)
    finally:
        server.close()


async def test_metrics_server__on_an_address_in_use_that_nobody_chose__takes_a_free_port(
    serve: Serve, published_keys: KeyStore
) -> None:
    state = (await serve(published_keys)).app[STATE]
    with contextlib.closing(MetricsServer(new_registry(), "127.0.0.1", 0)) as first:
        address = f"127.0.0.1:{first.address[1]}"
        unchosen = HttpSettings(metrics_address=address)
        state.settings = replace(state.settings, http=unchosen)
        with contextlib.closing(start_metrics_server(state, new_registry())) as second:
            assert second.address[1] != first.address[1]
            assert fetch(second, "/livez")[0] == 200
        state.settings = replace(state.settings, http=replace(unchosen, given=frozenset({"metrics_address"})))
        with pytest.raises(SettingsInvalid, match="--metrics-address: cannot listen"):
            start_metrics_server(state, new_registry())


async def test_probes__follow_the_state_of_the_server(serve: Serve, published_keys: KeyStore) -> None:
    client = await serve(published_keys)
    state = client.app[STATE]
    ready = probes(state)["/readyz"]
    assert ready() == (True, f"ready: {len(published_keys.installed())} proving keys installed")
    state.draining = True
    assert ready() == (False, "not ready: shutting down")
    assert probes(state)["/livez"]() == (True, "alive")


async def test_probes__of_an_event_loop_that_does_not_run__fail_after_5_and_30_seconds(
    serve: Serve, published_keys: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = (await serve(published_keys)).app[STATE]
    ready, alive = probes(state)["/readyz"], probes(state)["/livez"]
    last = time.monotonic()
    for silence_s, is_ready, is_alive in ((4, True, True), (6, False, True), (29, False, True), (31, False, False)):
        with monkeypatch.context() as patched:
            patched.setattr("prover.http.server.heartbeat.time.monotonic", lambda moment=last + silence_s: moment)
            assert ready()[0] == is_ready
            assert alive()[0] == is_alive
            if not is_ready:
                assert ready()[1].startswith("not ready: the event loop has not run for ")
            if not is_alive:
                assert alive()[1].startswith("restart this process: the event loop has not run for ")
    assert ready()[0]
    assert alive()[0]


async def test_readiness__without_keys__is_refused_with_the_reason(
    serve: Serve, published_keys: KeyStore, tmp_path_factory: pytest.TempPathFactory
) -> None:
    empty = open_store(tmp_path_factory.mktemp("empty"), published_keys._engine)
    client = await serve(empty, http={"metrics_address": "127.0.0.1:0"})
    state = client.app[STATE]
    server = start_metrics_server(state, new_registry())
    try:
        status, text = fetch(server, "/readyz")
        assert status == 503
        assert "no proving keys" in text
        assert fetch(server, "/livez") == (200, "alive\n")
    finally:
        server.close()


async def test_readiness__with_keys_of_excluded_circuits_alone__is_refused(
    serve: Serve, published_keys: KeyStore
) -> None:
    excluding = CircuitSelection(frozenset({circuit("batch_append_32_500")}))
    state = (await serve(published_keys, selection=excluding)).app[STATE]
    reason = f"no proving keys of the circuits that --run-mode and --circuit select in {state.settings.keys.directory}"
    assert probes(state)["/readyz"]() == (False, f"not ready: {reason}")
    including = CircuitSelection(frozenset({circuit(CONVERTED), circuit("batch_append_32_500")}))
    state = (await serve(published_keys, selection=including)).app[STATE]
    assert probes(state)["/readyz"]() == (True, "ready: 1 proving keys installed")


async def test_readiness__api_whose_jobs_workers_prove__needs_no_key_of_its_circuits(
    serve: Serve, published_keys: KeyStore, job_store: JobStore
) -> None:
    excluding = CircuitSelection(frozenset({circuit("batch_append_32_500")}))
    client = await serve(published_keys, job_store, selection=excluding, queue={"workers": False})
    ready, _ = await asyncio.to_thread(probes(client.app[STATE])["/readyz"])
    assert ready


async def test_readiness__names_everything_that_is_missing(
    serve: Serve, published_keys: KeyStore, tmp_path_factory: pytest.TempPathFactory
) -> None:
    empty = open_store(tmp_path_factory.mktemp("empty"), published_keys._engine)
    state = (await serve(empty, keys={"auto_download": True})).app[STATE]
    ready, started = probes(state)["/readyz"], probes(state)["/startupz"]
    assert ready()[0], "missing keys are downloaded on first use"
    assert started() == (True, "started")
    state.listening = False
    state.missing_required = lambda: ["v2_inclusion_32_1: not loaded yet"]
    key, failure = published_keys.get(circuit(CONVERTED), CancelFlag()), DeviceUnavailable("no random bytes")
    with pytest.raises(DeviceUnavailable), state.devices.target(key, CancelFlag()):
        raise failure
    assert ready() == (
        False,
        "not ready: not listening yet; v2_inclusion_32_1: not loaded yet; the device failed: no random bytes",
    )
    assert started() == (False, "not listening yet")
    with state.devices.target(key, CancelFlag()):
        pass
    state.listening = True
    assert "the device" not in ready()[1]


async def test_readiness__next_to_an_entry_that_is_no_key__is_that_of_the_keys(
    serve: Serve, published_keys: KeyStore, tmp_path: Path
) -> None:
    (tmp_path / "v1_inclusion_26_1.key").write_bytes(b"not looked into yet")
    (tmp_path / "v1_inclusion_26_2.key").symlink_to("absent")
    state = (await serve(open_store(tmp_path, published_keys._engine))).app[STATE]
    assert probes(state)["/readyz"]() == (True, "ready: 1 proving keys installed")


async def test_readiness__that_cannot_be_determined__is_503_with_what_failed(
    serve: Serve, published_keys: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await serve(published_keys, http={"metrics_address": "127.0.0.1:0"})
    state = client.app[STATE]

    def fail() -> None:
        raise PermissionError(13, "Permission\ndenied")

    monkeypatch.setattr(state.keys, "installed", fail)
    with contextlib.closing(start_metrics_server(state, new_registry())) as server, capture_logs() as lines:
        status, text = fetch(server, "/readyz")
    assert status == 503
    assert text == ("not ready: readiness is unknown: PermissionError: [Errno 13] Permission denied; see the log\n")
    assert [line["event"] for line in lines] == ["readiness_unknown"]
