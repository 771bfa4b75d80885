"""The metrics address: exposition and probes."""

from __future__ import annotations

import contextlib
import socket
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from in_process_service import Serve, open_store
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from prover.errors import SettingsInvalid
from prover.http.app import start_metrics_server
from prover.http.probes import probes
from prover.http.state import STATE
from prover.keys.store import KeyStore
from prover.observability.metrics import Metrics
from prover.settings import HttpSettings
from shared.metrics import MetricsServer, new_registry


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


def test_metrics_server__with_too_many_connections__closes_more_and_recovers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.metrics._MOST_CONNECTIONS", 3)
    with contextlib.closing(MetricsServer(new_registry(), "127.0.0.1", 0)) as server:
        with contextlib.ExitStack() as stack:
            for _ in range(3):
                stack.enter_context(socket.create_connection(server.address, 60))
            with socket.create_connection(server.address, 60) as one_more:
                assert one_more.recv(1) == b""
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError):
                assert fetch(server, "/metrics")[0] == 200
                break
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_metrics_server__on_a_taken_address__says_so() -> None:
    server = MetricsServer(new_registry(), "127.0.0.1", 0)
    try:
        with pytest.raises(OSError, match="in use"):
            MetricsServer(new_registry(), *server.address)
    finally:
        server.close()


async def test_metrics_server__on_a_taken_address_that_nobody_chose__takes_a_free_port(
    serve: Serve, published_keys: KeyStore
) -> None:
    state = (await serve(published_keys)).app[STATE]
    with contextlib.closing(MetricsServer(new_registry(), "127.0.0.1", 0)) as first:
        address = f"127.0.0.1:{first.address[1]}"
        unchosen = HttpSettings.model_construct(_fields_set=set(), metrics_address=address)
        state.settings = state.settings.model_copy(update={"http": unchosen})
        with contextlib.closing(start_metrics_server(state, new_registry())) as second:
            assert second.address[1] != first.address[1]
            assert fetch(second, "/livez")[0] == 200
        chosen = HttpSettings(metrics_address=address)
        state.settings = state.settings.model_copy(update={"http": chosen})
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
    state.health.note_failure("no random bytes")
    assert ready() == (
        False,
        "not ready: not listening yet; v2_inclusion_32_1: not loaded yet; the device failed: no random bytes",
    )
    assert started() == (False, "not listening yet")
    state.health.note_success()
    state.listening = True
    assert "the device" not in ready()[1]


async def test_readiness__beside_an_entry_that_is_no_key__is_that_of_the_keys(
    serve: Serve, published_keys: KeyStore, tmp_path: Path
) -> None:
    (tmp_path / "v1_inclusion_26_1.key").write_bytes(b"not looked into yet")
    (tmp_path / "v1_inclusion_26_2.key").symlink_to("absent")
    state = (await serve(open_store(tmp_path, published_keys._engine))).app[STATE]
    assert probes(state)["/readyz"]() == (True, "ready: 1 proving keys installed")


async def test_readiness__that_cannot_be_told__is_503_with_what_failed(
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
    assert text == ("not ready: readiness cannot be told: PermissionError: [Errno 13] Permission denied; see the log\n")
    assert [line["event"] for line in lines] == ["readiness_unknown"]
