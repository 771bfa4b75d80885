"""Servers and workers of the prover as processes that share one Redis, to be killed, stopped and started again.

Each keeps its ports over its restarts and appends to one log. A process ends with the thread that started it.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from local_processes import free_port, tied
from service_process import environment

PROVER = Path(sys.executable).with_name("prover")
PATIENCE_S = 120


class Member:
    """One ``prover start``."""

    def __init__(self, name: str, folder: Path, words: list[str], variables: Mapping[str, str]) -> None:
        self.name = name
        self.api_port, self.metrics_port = free_port(), free_port()
        self.log = folder / f"{name}.log"
        addresses = ["--prover-address", f"127.0.0.1:{self.api_port}"]
        addresses += ["--metrics-address", f"127.0.0.1:{self.metrics_port}"]
        self._command = tied([str(PROVER), "start", "--json-logging", *addresses, *words])
        # Measuring what a process executes would outlive and falsify its sudden death.
        kept = {name: value for name, value in environment().items() if not name.startswith("COVERAGE")}
        self._environment = kept | {"PYTHONFAULTHANDLER": "1"} | dict(variables)
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def pid(self) -> int:
        """The process that runs now."""
        assert self._process is not None, f"{self.name} does not run"
        return self._process.pid

    def start(self) -> None:
        """Start; returns at once."""
        assert self._process is None, f"{self.name} runs already"
        with self.log.open("ab") as sink:
            self._log_start = sink.tell()
            self._process = subprocess.Popen(self._command, stdout=sink, stderr=sink, env=self._environment)

    def kill(self) -> None:
        """Send SIGKILL."""
        assert self.end(signal.SIGKILL) == -signal.SIGKILL, f"{self.name} had ended before:\n{self.tail()}"

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and give the exit status."""
        assert self._process is not None
        process, self._process = self._process, None
        process.send_signal(how)
        try:
            return process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)  # says where it is
            process.wait(PATIENCE_S)
            raise AssertionError(f"{self.name} does not end:\n{self.tail()}") from None
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """SIGSTOP meanwhile."""
        pid = self.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Return the JSON that its API answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.api_port, timeout=PATIENCE_S)
        with contextlib.closing(connection):
            connection.request(method, path, body, dict(headers or {}))
            answer: dict[str, Any] = json.load(connection.getresponse())
            return answer

    def is_ready(self) -> bool:
        """Return what its readiness probe says."""
        connection = http.client.HTTPConnection("127.0.0.1", self.metrics_port, timeout=10)
        with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        return False

    def become_ready(self) -> None:
        """Wait for that."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.is_ready():
            assert self._process is not None
            assert self._process.poll() is None, f"{self.name} ended:\n{self.tail()}"
            assert time.monotonic() < deadline, f"{self.name} does not become ready:\n{self.tail()}"
            time.sleep(0.05)

    def events(self) -> list[dict[str, Any]]:
        """Return its log lines; one that a kill cut off is skipped."""
        return logged_events(self.log)

    def jobs_begun(self) -> set[str]:
        """Return ids of the jobs that it began and did not end since it was started, by its log."""
        return open_jobs(logged_events(self.log, self._log_start))

    def tail(self) -> str:
        """Return the end of its log."""
        return self.log.read_text(errors="replace")[-4000:] if self.log.exists() else ""


JOB_ENDS = ("job_finished", "job_failed", "job_cancelled", "job_requeued", "outcome_ignored", "outcome_not_reported")
"""Events that end an attempt."""


def logged_events(log: Path, start: int = 0) -> list[dict[str, Any]]:
    """Return the events of a log from a position on; a line that a kill cut off, and other output, is skipped."""
    found = []
    written = log.read_bytes() if log.exists() else b""
    for line in written[start:].splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            found.append(json.loads(line))
    return [line for line in found if isinstance(line, dict) and "event" in line]


def open_jobs(events: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return ids of the jobs that began and did not end."""
    begun: set[str] = set()
    for event in events:
        if event["event"] == "job_started":
            begun.add(event["job_id"])
        elif event["event"] in JOB_ENDS:
            begun.discard(event.get("job_id", ""))
    return begun


def moment(event: Mapping[str, Any]) -> float:
    """Return when a log line was written, Unix seconds."""
    return datetime.fromisoformat(event["timestamp"]).timestamp()


@contextlib.contextmanager
def running_fleet(
    folder: Path,
    keys_dir: Path,
    redis_url: str,
    variables: Mapping[str, str],
    *,
    apis: int = 1,
    workers: int = 1,
    own_variables: Mapping[str, Mapping[str, str]] | None = None,
) -> Iterator[tuple[list[Member], list[Member]]]:
    """API servers without workers, and workers without API, all ready; killed at the end unless they ended before.

    ``variables`` of the environment are for all of them, ``own_variables`` for those named: api-0, worker-0.
    """
    words = ["--keys-dir", str(keys_dir)]

    def made(name: str, more_words: list[str], more_variables: dict[str, str]) -> Member:
        own = (own_variables or {}).get(name, {})
        given = {"REDIS_URL": redis_url, **more_variables, **variables, **own}
        return Member(name, folder, [*words, *more_words], given)

    servers = [made(f"api-{number}", ["--no-workers"], {}) for number in range(apis)]
    provers = [made(f"worker-{number}", ["--queue-only"], {}) for number in range(workers)]
    members = [*servers, *provers]
    try:
        for member in members:
            member.start()
        for member in members:
            member.become_ready()
        yield servers, provers
    finally:
        for member in members:
            with contextlib.suppress(AssertionError):
                member.end(signal.SIGKILL)
