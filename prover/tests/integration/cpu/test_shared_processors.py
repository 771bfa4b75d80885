"""Two servers that prove at once on one host: each keeps to its share of the CPUs, until one of them dies."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from golden_vectors import vector_named
from service_process import Service, running_service

BODY = vector_named("prover/v2_inclusion_32_1").body
THREADS = 4


@pytest.fixture(autouse=True)
def two_processors() -> Iterator[None]:
    """At most two CPUs for every started process, on which four threads are too many."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:2])
    yield
    os.sched_setaffinity(0, before)


@contextmanager
def server(folder: Path, name: str, keys_dir: Path, **variables: str) -> Iterator[Service]:
    words = ["--keys-dir", str(keys_dir), "--prover-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0"]
    shared = {"PROVER_PROVING__SHARE_DIRECTORY": str(folder), "PROVER_PROVING__MERKLE_DEADLINE_S": "300"}
    with running_service(folder / name, *words, "--threads", str(THREADS), **(shared | variables)) as service:
        yield service


def active_threads(service: Service) -> float:
    """Return what the server says that its proofs may use."""
    _, metrics = service.ask("GET", "/metrics", port=service.metrics_port)
    (line,) = re.findall(rb"^prover_active_threads (\S+)$", metrics, re.MULTILINE)
    return float(line)


@contextmanager
def busy(service: Service) -> Iterator[list[int]]:
    """Two clients at once, so that there is always a proof; gives the statuses of what they got."""
    stop = threading.Event()
    statuses: list[int] = []

    def ask() -> None:
        while not stop.is_set():
            try:
                statuses.append(service.ask("POST", "/prove", b" " * len(statuses) + BODY)[0])
            except OSError:
                return

    clients = [threading.Thread(target=ask) for _ in range(2)]
    for client in clients:
        client.start()
    try:
        yield statuses
    finally:
        stop.set()
        for client in clients:
            client.join()


def test_servers__that_prove_at_once__have_a_share_each_until_one_is_killed(
    reference_keys_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("COVERAGE")]:
        monkeypatch.delenv(name)
    with (
        server(tmp_path, "first", reference_keys_dir) as first,
        server(tmp_path, "second", reference_keys_dir) as second,
    ):
        assert (active_threads(first), active_threads(second)) == (THREADS, THREADS)
        with busy(first) as answered, busy(second):
            first.until(lambda: (active_threads(first), active_threads(second)) == (1, 1))
            second.process.kill()
            second.process.wait()
            first.until(lambda: active_threads(first) == THREADS)
            count = len(answered)
            first.until(lambda: len(answered) > count)
            assert active_threads(first) == THREADS
    assert set(answered) == {200}


def test_server__told_not_to_share__keeps_its_threads_and_makes_no_file(
    reference_keys_dir: Path, tmp_path: Path
) -> None:
    with server(tmp_path, "log", reference_keys_dir, PROVER_PROVING__SHARE_PROCESSORS="false") as service:
        assert service.ask("POST", "/prove", BODY)[0] == 200
        assert active_threads(service) == THREADS
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_server__with_a_folder_that_it_cannot_use__says_so_and_proves(reference_keys_dir: Path, tmp_path: Path) -> None:
    absent = str(tmp_path / "absent")
    with server(tmp_path, "log", reference_keys_dir, PROVER_PROVING__SHARE_DIRECTORY=absent) as service:
        assert service.ask("POST", "/prove", BODY)[0] == 200
        events = [line for line in service.lines() if line["event"] == "cpu_sharing_disabled"]
    assert len(events) == 1
    assert absent in str(events[0]["error"])
