"""A prover server in its own process, for measurements."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from process_figures import ProcessFigures

OURS = str(Path(sys.executable).with_name("prover"))
START_DEADLINE_S = 600.0
STOP_DEADLINE_S = 60.0
REQUEST_DEADLINE_S = 300
HEALTH_EVERY_S = 0.005


@dataclass(frozen=True)
class ServerProcess(ProcessFigures):
    """A running server: its process and its ports."""

    port: int
    metrics_port: int

    def wait_until_ready(self) -> None:
        """Wait until our server has loaded the keys to preload. Exits if it does not."""
        deadline = time.monotonic() + START_DEADLINE_S
        while not _answers(self.metrics_port, "/readyz"):
            if time.monotonic() > deadline:
                sys.exit(f"a server did not load its keys within {START_DEADLINE_S:.0f} s")
            time.sleep(0.1)


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def start_command(binary: str, keys_dir: Path, port: int, metrics_port: int, *extra: str) -> list[str]:
    """Return a `start` command with flags that both programs know."""
    addresses = ["--prover-address", f"127.0.0.1:{port}", "--metrics-address", f"127.0.0.1:{metrics_port}"]
    return [binary, "start", "--keys-dir", f"{keys_dir}/", *addresses, *extra]


@contextlib.contextmanager
def running(
    binary: str, keys_dir: Path, *extra: str, variables: Mapping[str, str] | None = None
) -> Iterator[ServerProcess]:
    """Run ``binary start`` over a folder of keys until the block ends."""
    port, metrics_port = free_port(), free_port()
    # An installed program has its bytecode; in a source tree the first start writes it, unless this forbids it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                start_command(binary, keys_dir, port, metrics_port, *extra),
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=environment | dict(variables or {}),
            )
        try:
            _wait_until_healthy(port, process, log)
            yield ServerProcess(process.pid, port, metrics_port)
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(STOP_DEADLINE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until_healthy(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_DEADLINE_S
    while time.monotonic() < deadline and process.poll() is None:
        if _answers(port, "/health"):
            return
        time.sleep(HEALTH_EVERY_S)
    sys.exit(f"a server did not become healthy; its output ends with:\n{log.read_text(errors='replace')[-2000:]}")


def _answers(port: int, path: str) -> bool:
    """Return True if a GET is answered with 200."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
        with contextlib.closing(connection):
            connection.request("GET", path)
            return connection.getresponse().status == 200
    return False


def ask(port: int, method: str, path: str, body: bytes | None = None) -> bytes:
    """Return the answer to one request on a new connection. Exits unless its status is 200."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=REQUEST_DEADLINE_S)
    with contextlib.closing(connection):
        connection.request(method, path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = response.read()
    if response.status != http.HTTPStatus.OK:
        sys.exit(f"{method} {path}: status {response.status}: {answer[:500]!r}")
    return answer
