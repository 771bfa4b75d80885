"""Probes, stopping in two steps, reloading and tracing, on ``prover start`` as a process."""

from __future__ import annotations

import contextlib
import http.client
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from golden_vectors import vector_named
from service_process import PROVER, Service, environment, running_program, running_service

BODY = vector_named("prover/v2_inclusion_32_1").body
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def words(keys_dir: Path, *more: str) -> list[str]:
    addresses = ["--prover-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0"]
    return ["--keys-dir", f"{keys_dir}/", *addresses, *more]


def post(service: Service, headers: dict[str, str]) -> int:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", service.api_port, timeout=120)) as connection:
        connection.request("POST", "/prove", BODY, headers)
        return connection.getresponse().status


def test_stop__asked_for__fails_readiness_while_requests_are_served(reference_keys_dir: Path, tmp_path: Path) -> None:
    with running_service(tmp_path / "log", *words(reference_keys_dir, "--drain-delay", "3600")) as service:
        for probe in ("/livez", "/startupz", "/readyz"):
            assert service.ask("GET", probe, port=service.metrics_port)[0] == 200
        assert service.ask("POST", "/prove", BODY)[0] == 200
        service.process.send_signal(signal.SIGTERM)
        service.until(lambda: service.ask("GET", "/readyz", port=service.metrics_port)[0] == 503)
        assert b"shutting down" in service.ask("GET", "/readyz", port=service.metrics_port)[1]
        assert service.ask("GET", "/livez", port=service.metrics_port)[0] == 200
        assert service.ask("GET", "/health")[0] == 200
        assert service.ask("POST", "/prove", BODY)[0] == 200
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(60) == 128 + signal.SIGTERM
        assert "second_signal" in [line["event"] for line in service.lines()]


def test_stop__clients_with_open_connections__lose_no_request_and_are_sent_away(
    reference_keys_dir: Path, tmp_path: Path
) -> None:
    with running_service(tmp_path / "log", *words(reference_keys_dir), KUBERNETES_SERVICE_HOST="10.0.0.1") as service:
        busy, idle = (http.client.HTTPConnection("127.0.0.1", service.api_port, timeout=60) for _ in range(2))
        for connection in (busy, idle):
            connection.request("GET", "/health")
            answer = connection.getresponse()
            assert (answer.read(), answer.getheader("Connection")) == (b'{"status":"ok"}', None)
        stopped = time.monotonic()
        service.process.send_signal(signal.SIGTERM)
        service.until(lambda: service.ask("GET", "/readyz", port=service.metrics_port)[0] == 503)
        busy.request("POST", "/prove", BODY)
        answer = busy.getresponse()
        assert (answer.status, answer.getheader("Connection")) == (200, "close")
        answer.read()
        assert idle.sock is not None
        assert idle.sock.recv(1) == b"", "closed, not reset"
        assert time.monotonic() - stopped >= 5, "the delay in Kubernetes"
        assert service.process.wait(60) == 0
        idle.close()


def test_stop__of_one_of_two_instances_under_clients_that_keep_connections__loses_no_request(tmp_path: Path) -> None:
    stopped, ended, lost = threading.Event(), threading.Event(), []
    folder = tmp_path / "keys"
    folder.mkdir()
    with (
        running_service(tmp_path / "one", *words(folder, "--drain-delay", "1")) as leaving,
        running_service(tmp_path / "other", *words(folder)) as staying,
    ):

        def client(number: int) -> int:
            """Send requests on one connection until the server closes it; the next goes where readiness points."""
            sent = 0
            while not ended.is_set():
                port = (staying if stopped.is_set() else leaving).api_port
                with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
                    while not ended.is_set():
                        try:
                            connection.request("GET", "/health")
                            answer = connection.getresponse()
                            answer.read()
                        except (OSError, http.client.HTTPException) as error:
                            lost.append(error)
                            break
                        sent += 1
                        if answer.will_close:
                            break
                        time.sleep(0.002 * number)
            return sent

        with ThreadPoolExecutor(8) as pool:
            clients = [pool.submit(client, number) for number in range(8)]
            time.sleep(0.5)
            leaving.process.send_signal(signal.SIGTERM)
            leaving.until(lambda: leaving.ask("GET", "/readyz", port=leaving.metrics_port)[0] == 503)
            stopped.set()
            assert leaving.process.wait(60) == 0
            time.sleep(0.2)
            ended.set()
            assert sum(found.result() for found in clients) > 100
    assert lost == []


def test_key_file__changed__counts_after_a_signal(reference_keys_dir: Path, tmp_path: Path) -> None:
    keys = tmp_path / "api-keys"
    keys.write_text("first=first-key\n")
    keys.chmod(0o600)
    with running_service(tmp_path / "log", *words(reference_keys_dir, "--api-keys-file", str(keys))) as service:
        assert post(service, {}) == 401
        assert post(service, {"X-API-Key": "first-key"}) == 200
        keys.write_text("second=second-key\n")
        service.process.send_signal(signal.SIGHUP)
        service.until(lambda: any(line["event"] == "api_keys_reloaded" for line in service.lines()))
        assert post(service, {"X-API-Key": "first-key"}) == 401
        assert post(service, {"Authorization": "Bearer second-key"}) == 200
        assert service.process.poll() is None
        finished = [line for line in service.lines() if line["event"] == "request_finished"]
        assert [line.get("api_key") for line in finished] == [None, "first", None, "second"]
        short = [line["names"] for line in service.lines() if line["event"] == "api_keys_guessable"]
        assert short == [["first"], ["second"]]
        assert "first-key" not in (tmp_path / "log").read_text()


BLOCKED = """
import asyncio, sys, time
from prover.cli.main import cli
from prover.http.app import Listener

start = Listener.start

async def start_and_block(listener):
    await start(listener)
    asyncio.get_running_loop().call_later(0.5, time.sleep, 7)

Listener.start = start_and_block
cli(sys.argv[1:])
"""


def test_event_loop__blocked__fails_readiness_until_it_runs_again(reference_keys_dir: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", BLOCKED, "start", *words(reference_keys_dir)]
    with running_program(tmp_path / "log", command, {}) as service:
        assert service.ask("GET", "/readyz", port=service.metrics_port)[0] == 200
        service.until(lambda: service.ask("GET", "/readyz", port=service.metrics_port)[0] == 503)
        reason = service.ask("GET", "/readyz", port=service.metrics_port)[1]
        assert b"the event loop has not run for" in reason
        assert service.ask("GET", "/livez", port=service.metrics_port)[0] == 200
        service.until(lambda: service.ask("GET", "/readyz", port=service.metrics_port)[0] == 200)


def test_request__traced__has_its_ids_on_every_line(reference_keys_dir: Path, tmp_path: Path) -> None:
    headers = {"X-Request-Id": "request-1", "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
    with running_service(tmp_path / "log", *words(reference_keys_dir)) as service:
        assert post(service, headers) == 200
        service.until(lambda: any(line["event"] == "request_finished" for line in service.lines()))
        about = [line for line in service.lines() if line["event"] in ("key_loaded", "request_finished")]
        assert len(about) == 2
        assert {(line["request_id"], line["trace_id"]) for line in about} == {("request-1", TRACE)}


def test_start__with_a_broken_key_file__says_where(reference_keys_dir: Path, tmp_path: Path) -> None:

    keys = tmp_path / "api-keys"
    keys.write_text("first=first-key\nrubbish\n")
    answer = subprocess.run(
        [str(PROVER), "start", *words(reference_keys_dir, "--api-keys-file", str(keys))],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
        timeout=60,
    )
    assert answer.returncode == 78
    assert f"{keys}, line 2" in answer.stderr
    assert "Traceback" not in answer.stderr
