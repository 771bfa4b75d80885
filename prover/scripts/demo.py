"""Proofs end to end: published proving keys, recorded requests, proofs that a verifier accepts.

Fetches the published keys, proves and verifies on the command line, starts the service on free ports, proves over
HTTP, verifies those answers too, and shows that a wrong public input is refused. Exit status 0 only when every proof
was verified.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import reference_fixtures

PROVER = str(Path(sys.executable).with_name("prover"))
REQUESTS = Path(__file__).resolve().parents[1] / "tests" / "vectors" / "prover"
START_DEADLINE_S = 60.0
REQUEST_DEADLINE_S = 120.0
STOP_DEADLINE_S = 30.0


class DemoFailed(Exception):
    """A step did not do what it must; the message says which."""


@dataclass(frozen=True)
class Example:
    """A request of the golden vectors and the published key that proves it."""

    title: str
    request: str
    key: str

    @property
    def body(self) -> bytes:
        """Request in the format of the wire."""
        return (REQUESTS / self.request).read_bytes()

    @property
    def public_input(self) -> str:
        """Only public input of the circuit, in hexadecimal."""
        return str(json.loads(self.body)["publicInputHash"])


EXAMPLES = (
    Example("inclusion, height 32, 1 account", "v2_inclusion_32_1.json", "inclusion_32_1.key"),
    Example("non-inclusion, height 40, 1 address", "v2_non-inclusion_40_1.json", "non-inclusion_40_1.key"),
    Example("combined, heights 32/40, 1 and 1", "v2_combined_32_40_1_1.json", "combined_32_40_1_1.key"),
)


@dataclass
class Report:
    """The verified proofs, in order."""

    rows: list[tuple[str, str, float]] = field(default_factory=list)

    def add(self, way: str, example: Example, seconds: float) -> None:
        """Record one proof that was made and then verified."""
        self.rows.append((way, example.title, seconds))
        say(f"   verified  {seconds * 1000:7.0f} ms  {example.title}")

    def show(self) -> None:
        """Print the closing table on stdout."""
        print(f"\n{len(self.rows)} proofs made on published Light Protocol keys, each verified:\n")
        print(f"  {'way':<13} {'circuit':<38} {'time':>9}")
        for way, title, seconds in self.rows:
            print(f"  {way:<13} {title:<38} {seconds * 1000:>6.0f} ms")
        print(
            "\n  command line: the whole process, key loading and self-check included"
            "\n  HTTP, first:  the service loads the key on its first request"
            "\n  HTTP, warm:   the same request again"
        )


def say(message: str) -> None:
    """Print one line of progress on standard error."""
    print(message, file=sys.stderr, flush=True)


# ---- command line -------------------------------------------------------------------------------


def run_prover(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run the `prover` command to its end."""
    return subprocess.run([PROVER, *arguments], input=stdin, capture_output=True, check=False)


def prove(example: Example, keys_dir: Path) -> tuple[bytes, float]:
    """Return the proof JSON of an example by the command line, and its seconds."""
    started = time.monotonic()
    answer = run_prover("prove", "--key", str(keys_dir / example.key), stdin=example.body)
    if answer.returncode != 0:
        raise DemoFailed(f"`prover prove` ended with {answer.returncode}: {answer.stderr.decode().strip()}")
    return answer.stdout, time.monotonic() - started


def accepts(example: Example, keys_dir: Path, proof: bytes, public_input: str) -> bool:
    """Return whether `prover verify` accepts a proof for a public input."""
    key = str(keys_dir / example.key)
    answer = run_prover("verify", "--key", key, "--public-input", public_input, stdin=proof)
    if answer.returncode not in {0, 1}:
        raise DemoFailed(f"`prover verify` ended with {answer.returncode}: {answer.stderr.decode().strip()}")
    return answer.returncode == 0


def require_verified(example: Example, keys_dir: Path, proof: bytes) -> None:
    """Fail unless the proof verifies for its public input and for no other."""
    if not accepts(example, keys_dir, proof, example.public_input):
        raise DemoFailed(f"the proof of {example.title} was rejected")
    other = f"0x{int(example.public_input, 16) ^ 1:064x}"
    if accepts(example, keys_dir, proof, other):
        raise DemoFailed(f"the proof of {example.title} was accepted for a wrong public input")


# ---- service ------------------------------------------------------------------------------------


def free_port() -> int:
    """Return a port that is not in use now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def ask(port: int, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    """Send one HTTP request to this machine; return status and body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=REQUEST_DEADLINE_S)
    with contextlib.closing(connection):
        connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        response = connection.getresponse()
        return response.status, response.read()


def wait_until_healthy(port: int, service: subprocess.Popen[bytes], log: Path) -> None:
    """Return when GET /health answers 200; fail when the service ends or takes too long."""
    deadline = time.monotonic() + START_DEADLINE_S
    while time.monotonic() < deadline:
        if service.poll() is not None:
            raise DemoFailed(f"`prover start` ended with {service.returncode}: {log.read_text()[-2000:]}")
        with contextlib.suppress(OSError):
            if ask(port, "GET", "/health")[0] == 200:
                return
        time.sleep(0.1)
    raise DemoFailed(f"the service did not answer /health within {START_DEADLINE_S:.0f} s")


@contextlib.contextmanager
def running_service(keys_dir: Path) -> Iterator[tuple[int, int]]:
    """Run `prover start` on free ports; yield the ports of the API and of the metrics."""
    port, metrics_port = free_port(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "prover.log"
        command = [PROVER, "start", "--keys-dir", str(keys_dir)]
        command += ["--prover-address", f"127.0.0.1:{port}", "--metrics-address", f"127.0.0.1:{metrics_port}"]
        with log.open("wb") as sink:
            service = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT)
        try:
            wait_until_healthy(port, service, log)
            yield port, metrics_port
            service.send_signal(signal.SIGTERM)
            if service.wait(STOP_DEADLINE_S) != 0:
                raise DemoFailed(f"the service ended with {service.returncode}: {log.read_text()[-2000:]}")
        except subprocess.TimeoutExpired as error:
            raise DemoFailed(f"the service did not stop within {STOP_DEADLINE_S:.0f} s of SIGTERM") from error
        finally:
            if service.poll() is None:
                service.kill()
                service.wait()


def prove_over_http(example: Example, port: int) -> tuple[bytes, float]:
    """Return the proof JSON of an example by POST /prove, and its seconds."""
    started = time.monotonic()
    status, body = ask(port, "POST", "/prove", example.body)
    if status != 200:
        raise DemoFailed(f"POST /prove answered {status}: {body.decode(errors='replace')[:500]}")
    return body, time.monotonic() - started


# ---- the job ------------------------------------------------------------------------------------


def run(report: Report) -> None:
    """Run all steps. Raise DemoFailed or ReferenceUnavailable."""
    say("1. Published proving keys (151 MB the first time)")
    keys_dir = reference_fixtures.proving_keys_dir()
    say(f"   {len(list(keys_dir.glob('*.key')))} keys in {os.path.relpath(keys_dir)}")

    say("2. Command line: prover prove | prover verify")
    for example in EXAMPLES:
        proof, seconds = prove(example, keys_dir)
        require_verified(example, keys_dir, proof)
        report.add("command line", example, seconds)

    say("3. Service: prover start, POST /prove")
    with running_service(keys_dir) as (port, metrics_port):
        for way in ("HTTP, first", "HTTP, warm"):
            for example in EXAMPLES:
                proof, seconds = prove_over_http(example, port)
                require_verified(example, keys_dir, proof)
                report.add(way, example, seconds)
        status, metrics = ask(metrics_port, "GET", "/metrics")
        if status != 200 or b"prover_" not in metrics:
            raise DemoFailed(f"GET /metrics answered {status} without the prover's metrics")
    say("   stopped by SIGTERM, status 0")


def main() -> int:
    """Run the demo; 0 when at least one proof was made and every proof was verified."""
    report = Report()
    try:
        run(report)
    except (DemoFailed, reference_fixtures.ReferenceUnavailable) as error:
        say(f"\nDemo failed: {error}")
        return 1
    if not report.rows:
        say("\nDemo failed: no proof was verified")
        return 1
    report.show()
    return 0


if __name__ == "__main__":
    sys.exit(main())
