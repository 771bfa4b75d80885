"""``prover start`` as a process, found by the log line that names its ports."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

PROVER = Path(sys.executable).with_name("prover")


class Service:
    """A running ``prover start``."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log
        self.api_port, self.metrics_port = self._listening()

    def lines(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self._log.read_text().splitlines()]

    def ask(self, method: str, path: str, body: bytes | None = None, port: int | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", port or self.api_port, timeout=60)
        with contextlib.closing(connection):
            connection.request(method, path, body)
            response = connection.getresponse()
            return response.status, response.read()

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something holds; fails when the process ends first or it takes more than a minute."""
        deadline = time.monotonic() + 60
        while not condition():
            assert self.process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.05)

    def _listening(self) -> tuple[int, int]:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self._log.read_text()
            with contextlib.suppress(json.JSONDecodeError):
                for line in self.lines():
                    if line["event"] == "listening":
                        return int(str(line["api"]).rsplit(":", 1)[1]), int(str(line["metrics"]).rsplit(":", 1)[1])
            time.sleep(0.05)
        raise AssertionError("the service did not start")


@contextlib.contextmanager
def running_service(log: Path, *words: str, **variables: str) -> Iterator[Service]:
    """Start a service with these words and additional environment variables; its lines go to ``log``."""
    with running_program(log, [str(PROVER), "start", *words], variables) as service:
        yield service


@contextlib.contextmanager
def running_program(log: Path, command: list[str], variables: Mapping[str, str]) -> Iterator[Service]:
    """Start a service by a command of its own; its lines go to ``log``."""
    with log.open("wb") as sink:
        process = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT, env=environment() | dict(variables))
    try:
        yield Service(process, log)
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


def environment() -> dict[str, str]:
    """Return the variables of this process without settings of the prover and proxies."""
    foreign = (
        "PROVER_",
        "REDIS_URL",
        "QUEUE_MODE",
        "SERVER_MODE",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
    )
    return {name: value for name, value in os.environ.items() if not name.upper().startswith(foreign)}
