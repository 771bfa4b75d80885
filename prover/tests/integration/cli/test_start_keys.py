"""``prover start`` and its keys: which circuits are proved, which keys are loaded before and which are downloaded."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest
from faulty_key_server import KeyServer, held, running, status, truncated
from golden_vectors import vector_named
from in_process_service import circuit
from service_process import Service, running_service

SMALL = circuit("v1_inclusion_26_1")
OTHER = circuit("v2_inclusion_32_1")
SMALL_BODY = vector_named("prover/v1_inclusion_26_1").body
OTHER_BODY = vector_named("prover/v2_inclusion_32_1").body

Start = Callable[..., AbstractContextManager[Service]]


@pytest.fixture
def folder(tmp_path: Path, reference_keys_dir: Path) -> Path:
    """A keys directory with one published key."""
    keys = tmp_path / "keys"
    keys.mkdir()
    shutil.copy(reference_keys_dir / SMALL.earlier_key_file, keys / SMALL.key_file)
    return keys


@pytest.fixture
def start(folder: Path, tmp_path: Path) -> Start:
    """Give a function that starts a service over the folder with more words."""
    words = ("--keys-dir", str(folder), "--prover-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0")
    return partial(running_service, tmp_path / "log", *words)


def problem(answer: tuple[int, bytes]) -> tuple[int, str, str]:
    body = json.loads(answer[1])
    return answer[0], body["code"], body["message"]


def is_ready(service: Service) -> bool:
    return service.ask("GET", "/readyz", port=service.metrics_port)[0] == 200


def test_start__with_preloaded_keys__is_ready_when_they_are_loaded(start: Start) -> None:
    with start("--preload-circuits", SMALL.name) as service:
        service.until(lambda: is_ready(service))
        metrics = service.ask("GET", "/metrics", port=service.metrics_port)[1]
        assert b"prover_keys_loaded 1.0" in metrics
        assert service.ask("POST", "/prove", SMALL_BODY)[0] == 200


def test_start__with_a_preloaded_key_missing__reports_it_and_proves_with_the_others(start: Start) -> None:
    with start("--preload-circuits", f"{OTHER.name},{SMALL.name}") as service:
        service.until(lambda: any(line["event"] == "key_not_preloaded" for line in service.lines()))
        code, body = service.ask("GET", "/readyz", port=service.metrics_port)
        assert code == 503
        assert f"proving key file not found: {OTHER.key_file}".encode() in body
        assert service.ask("GET", "/health")[0] == 200
        assert service.ask("POST", "/prove", SMALL_BODY)[0] == 200
        code, name, message = problem(service.ask("POST", "/prove", OTHER_BODY))
        assert (code, name) == (503, "key_not_found")
        assert message.startswith(f"proving key file not found: {OTHER.key_file}; run `prover download`")


def test_start__without_keys__reports_it_once_and_serves_those_that_come(
    start: Start, folder: Path, tmp_path: Path
) -> None:
    later = tmp_path / "later"
    later.mkdir()
    with start("--keys-dir", str(later)) as service:
        (reported,) = (line for line in service.lines() if line["event"] == "keys_missing")
        assert (reported["level"], reported["keys_dir"]) == ("warning", str(later))
        assert "prover download" in str(reported["remedy"])
        for file in folder.iterdir():
            file.rename(later / file.name)
        assert service.ask("POST", "/prove", SMALL_BODY)[0] == 200
    for words in (("--keys-dir", str(later)), ("--keys-dir", str(tmp_path / "none"), "--auto-download")):
        with start(*words) as service:
            assert not [line for line in service.lines() if line["event"] == "keys_missing"]


def test_start__with_keys_of_excluded_circuits_alone__reports_it(start: Start) -> None:
    with start("--circuit", OTHER.name) as service:
        assert [line["level"] for line in service.lines() if line["event"] == "keys_missing"] == ["warning"]
        assert not is_ready(service)


def test_start__with_circuits__refuses_the_others(start: Start) -> None:
    with start("--circuit", f"{SMALL.name},update", "--run-mode", "forester") as service:
        assert service.ask("POST", "/prove", SMALL_BODY)[0] == 200
        assert problem(service.ask("POST", "/prove", OTHER_BODY))[:2] == (503, "circuit_disabled")


def test_start__with_downloads__brings_a_key_on_first_use(start: Start, folder: Path, reference_keys_dir: Path) -> None:
    data = (reference_keys_dir / OTHER.earlier_key_file).read_bytes()
    with running(KeyServer({OTHER.key_file: data})) as server:
        server.faults[OTHER.key_file] = [truncated(10_000), status(503)]
        words = ("--auto-download", "true", "--download-url", server.url)
        with start(*words) as service:
            assert is_ready(service)
            assert service.ask("POST", "/prove", SMALL_BODY)[0] == 200
            assert not server.gets
            assert service.ask("POST", "/prove", OTHER_BODY)[0] == 200
    assert (folder / OTHER.key_file).read_bytes() == data
    with start(*words) as service:  # the server of keys is gone
        assert service.ask("POST", "/prove", OTHER_BODY)[0] == 200


def test_start__whose_download_takes_long__answers_503_and_proves_when_it_is_done(
    start: Start, reference_keys_dir: Path
) -> None:
    go_on = threading.Event()
    data = (reference_keys_dir / OTHER.earlier_key_file).read_bytes()
    with running(KeyServer({OTHER.key_file: data})) as server:
        server.faults[OTHER.key_file] = [held(go_on)]
        words = ("--auto-download", "--download-url", server.url)
        with start(*words, PROVER_PROVING__KEY_WAIT_S="0.5") as service:
            assert problem(service.ask("POST", "/prove", OTHER_BODY))[:2] == (503, "key_loading")
            assert service.ask("POST", "/prove", SMALL_BODY)[0] in (200, 503)  # a loaded machine may be slow, too
            go_on.set()
            service.until(lambda: service.ask("POST", "/prove", OTHER_BODY)[0] == 200)
        assert server.gets[OTHER.key_file] == 1


def test_start__with_a_failing_download__answers_503_and_says_why(start: Start, folder: Path) -> None:
    with running(KeyServer({})) as server:
        server.checksums = f"{'0' * 64}  {OTHER.key_file}\n"
        with start("--auto-download", "--download-url", server.url) as service:
            for _ in range(2):
                code, name, message = problem(service.ask("POST", "/prove", OTHER_BODY))
                assert (code, name) == (503, "key_download_failed")
                assert message.startswith(f"proving key file not found: {OTHER.key_file}; downloading it from ")
                assert "404 Not Found: check --download-url" in message
                assert str(folder) not in message
            assert server.gets[OTHER.key_file] == 1
            assert service.ask("POST", "/prove", SMALL_BODY)[0] == 200


def test_start__without_a_network__answers_503_for_all_keys_within_the_deadline(start: Start) -> None:
    with start("--auto-download", "--download-url", "http://127.0.0.1:1/keys") as service:
        began = time.monotonic()
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda _: problem(service.ask("POST", "/prove", OTHER_BODY)), range(4)))
        for code, name, message in answers:
            assert (code, name) == (503, "key_not_found")
            assert message.startswith(f"proving key file not found: {OTHER.key_file}; downloading CHECKSUM from ")
            assert "check --download-url and the network" in message
        assert time.monotonic() - began < 30
        assert [line["event"] for line in service.lines()].count("key_download_failed") == 1
        assert service.ask("POST", "/prove", SMALL_BODY)[0] == 200


def test_start__with_a_failing_key_server__requests_one_list_for_all_keys_and_clients(start: Start) -> None:
    bodies = [vector_named(f"prover/{name}").body for name in ("v2_inclusion_32_1", "v2_non-inclusion_40_1")]
    with running(KeyServer({})) as server:
        server.checksum_faults = [status(500)] * 1000
        with start("--auto-download", "--download-url", server.url) as service:
            began = time.monotonic()
            with ThreadPoolExecutor(12) as pool:
                answers = list(pool.map(lambda body: problem(service.ask("POST", "/prove", body)), bodies * 6))
            assert time.monotonic() - began < 20
            assert {answer[:2] for answer in answers} == {(503, "key_not_found")}
            assert all("downloading CHECKSUM from" in message for _, _, message in answers)
            attempts = server.gets["CHECKSUM"]
            assert attempts <= 10
            time.sleep(2)
            assert server.gets["CHECKSUM"] == attempts, "no attempt continues after its answers"


def test_start__with_too_little_memory_for_a_key__says_need_budget_and_remedies(start: Start) -> None:
    with start("--key-memory-gb", "0.001") as service:
        code, name, message = problem(service.ask("POST", "/prove", SMALL_BODY))
        assert (code, name) == (503, "out_of_memory")
        assert "keys may take 1.0 MiB" in message
        assert "--key-memory-gb" in message
