"""``prover start`` as a process: the launcher's words, signals, drains, taken addresses."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from golden_vectors import vector_named
from service_process import PROVER, Service, environment, running_service

BODY = vector_named("prover/v2_inclusion_32_1").body
LARGE = vector_named("circuits/v2_inclusion_32_4").body


@pytest.fixture
def service(reference_keys_dir: Path, tmp_path: Path) -> Iterator[Service]:
    words = ["--keys-dir", f"{reference_keys_dir}/", "--prover-address", "127.0.0.1:0", "--auto-download", "true"]
    with running_service(tmp_path / "log", *words, "--metrics-address", "127.0.0.1:0") as service:
        yield service


def test_start__as_the_launcher_calls_it__proves_and_reports(service: Service) -> None:
    assert service.ask("GET", "/health") == (200, b'{"status":"ok"}')
    status, proof = service.ask("POST", "/prove", BODY)
    assert (status, len(proof)) == (200, 579)
    assert service.ask("POST", "/prove", b"{")[0] == 400
    assert service.ask("GET", "/readyz", port=service.metrics_port)[0] == 200
    status, metrics = service.ask("GET", "/metrics", port=service.metrics_port)
    assert b'prover_proof_requests_total{circuit_type="inclusion",status="ok"} 1.0' in metrics
    assert b"prover_key_load_duration_seconds_count" in metrics
    finished = [line for line in service.lines() if line["event"] == "request_finished" and line["status"] == 200]
    assert finished[-1]["circuit"] == "v2_inclusion_32_1"
    assert finished[-1]["request_id"]


def bodies_read(service: Service) -> int:
    _, metrics = service.ask("GET", "/metrics", port=service.metrics_port)
    counts = re.findall(rb"^prover_circuit_input_size_bytes_count\{.*\} (\S+)$", metrics, re.MULTILINE)
    return int(sum(map(float, counts)))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_start__stopped_by_a_signal__finishes_what_runs(service: Service, number: int) -> None:
    service.ask("POST", "/prove", LARGE)  # loads the key
    answers: list[tuple[int, bytes]] = []
    threads = [threading.Thread(target=lambda: answers.append(service.ask("POST", "/prove", LARGE))) for _ in range(3)]
    for thread in threads:
        thread.start()
    service.until(lambda: bodies_read(service) == 4)
    service.process.send_signal(number)
    for thread in threads:
        thread.join()
    assert service.process.wait(60) == 0
    assert [(status, len(body)) for status, body in answers] == [(200, 579)] * 3
    events = [line["event"] for line in service.lines()]
    assert events[-1] == "stopped"
    assert "drained" in events
    with pytest.raises(ConnectionRefusedError):
        service.ask("GET", "/health")


def test_start__signalled_twice__ends_at_once(service: Service) -> None:
    service.ask("POST", "/prove", LARGE)
    stop = threading.Event()

    def keep_busy() -> None:
        while not stop.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException):
                service.ask("POST", "/prove", LARGE)

    threads = [threading.Thread(target=keep_busy) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    service.process.send_signal(signal.SIGTERM)
    time.sleep(0.05)
    service.process.send_signal(signal.SIGTERM)
    code = service.process.wait(30)
    stop.set()
    for thread in threads:
        thread.join()
    # 0 if the drain was quicker than the second signal, -SIGTERM if that came while the interpreter was ending
    assert code in (143, 0, -signal.SIGTERM)


@pytest.mark.parametrize("is_variable", [False, True])
@pytest.mark.parametrize(
    ("option", "variable"),
    [("--prover-address", "PROVER_HTTP__ADDRESS"), ("--metrics-address", "PROVER_HTTP__METRICS_ADDRESS")],
)
def test_start__on_an_address_in_use__exits_78_and_names_it_and_the_setting_that_gave_it(
    tmp_path: Path, option: str, variable: str, is_variable: bool
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        others = {"--prover-address": "127.0.0.1:0", "--metrics-address": "127.0.0.1:0"}
        given = others | {option: f"127.0.0.1:{port}"}
        variables = {variable: given.pop(option)} if is_variable else {}
        words = [word for pair in given.items() for word in pair]
        answer = subprocess.run(
            [str(PROVER), "start", "--keys-dir", str(tmp_path), *words],
            capture_output=True,
            check=False,
            env=environment() | variables,
            timeout=60,
        )
    assert answer.returncode == 78
    message = answer.stderr.splitlines()[-1].decode()
    name = variable if is_variable else option
    assert message == (
        f"error: {name}: cannot listen on 127.0.0.1:{port}: Address already in use; choose another address"
    )


@pytest.mark.parametrize("queue", [False, True])
def test_start__on_a_taken_address__loads_no_key_and_claims_no_job(reference_keys_dir: Path, queue: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        words = ["--prover-address", address, "--metrics-address", "127.0.0.1:0", "--preload-circuits", "inclusion"]
        if queue:
            words += ["--redis-url", "redis://127.0.0.1:1"]
        answer = subprocess.run(
            [str(PROVER), "start", "--keys-dir", str(reference_keys_dir), *words],
            capture_output=True,
            text=True,
            check=False,
            env=environment(),
            timeout=60,
        )
    assert answer.returncode == 78
    events = [json.loads(line)["event"] for line in answer.stderr.splitlines() if line.startswith("{")]
    assert "starting" in events
    assert not {"key_loaded", "queue", "key_not_preloaded"} & set(events), events


def test_start__keys_directory_that_does_not_exist__is_an_error_that_names_it(tmp_path: Path) -> None:
    command = [str(PROVER), "start", "--keys-dir", str(tmp_path / "none")]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, env=environment(), timeout=60)
    assert answer.returncode == 78
    assert answer.stderr.splitlines()[-1] == (
        f"error: keys directory {tmp_path / 'none'} does not exist; create it, pass another --keys-dir, or download "
        "keys with --auto-download"
    )


def test_start__with_a_variable_that_is_no_setting__logs_the_remedy(tmp_path: Path) -> None:
    variables = {"PROVER_PORT": "3001"}
    command = [str(PROVER), "start", "--keys-dir", str(tmp_path / "none")]  # ends the process
    answer = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment() | variables, timeout=60
    )
    [line] = [json.loads(line) for line in answer.stderr.splitlines() if "unknown_variable" in line]
    assert "PROVER_HTTP__ADDRESS=HOST:PORT" in line["detail"]
    assert line["remedy"] == "correct or remove it"


def test_start__server_only_with_a_redis_url__says_that_it_is_not_used(tmp_path: Path) -> None:
    words = ["--server-only", "--redis-url", "redis://user:passw0rd@127.0.0.1:1", "--keys-dir", str(tmp_path)]
    with socket.create_server(("127.0.0.1", 0)) as taken:  # ends the process
        words += ["--prover-address", f"127.0.0.1:{taken.getsockname()[1]}", "--metrics-address", "127.0.0.1:0"]
        command = [str(PROVER), "start", *words]
        answer = subprocess.run(command, capture_output=True, text=True, check=False, env=environment(), timeout=60)
    assert '"event": "redis_url_unused"' in answer.stderr.replace('":"', '": "'), answer.stderr
    assert "passw0rd" not in answer.stderr


def test_start__with_json_logging__writes_lines_to_standard_output(tmp_path: Path) -> None:
    words = ["--keys-dir", str(tmp_path), "--prover-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0"]
    with subprocess.Popen(
        [str(PROVER), "start", "--json-logging", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        events = []
        while "listening" not in events:
            events.append(json.loads(process.stdout.readline())["event"])
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    assert events[0] == "starting"
