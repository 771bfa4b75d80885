"""Proof times against the reference prover, side by side.

Starts the reference's published binary (npm package 0.27.0, run mode local-rpc) and our service on the same machine
with the same keys, sends the same requests to one after the other in turn, and prints medians and ratios. Every answer
of both is a full HTTP exchange with keys resident and warm; ours includes verifying the proof. Results are appended to
a JSON-lines history. Run it on an otherwise idle machine: `make bench`.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import platform
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

PROVER_ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROVER_ROOT / "scripts"))

import reference_fixtures  # noqa: E402 - found through the line above

OURS = str(Path(sys.executable).with_name("prover"))
REQUESTS = PROVER_ROOT / "tests" / "vectors" / "prover"
HISTORY = PROVER_ROOT / "bench" / "history.jsonl"
START_DEADLINE_S = 180.0
REQUEST_DEADLINE_S = 120.0
WARM_UP_ROUNDS = 3
CASES = {
    "inclusion 32/1": "v2_inclusion_32_1.json",
    "non-inclusion 40/1": "v2_non-inclusion_40_1.json",
    "combined 32/40 1_1": "v2_combined_32_40_1_1.json",
}
REQUIRED_RATIO = 1.5


@dataclass(frozen=True)
class Comparison:
    """Seconds per proof: medians, fastest runs, and how many times faster we are (median by median)."""

    circuit: str
    rounds: int
    reference_median_s: float
    ours_median_s: float
    reference_min_s: float
    ours_min_s: float
    ratio: float


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def post(port: int, body: bytes) -> tuple[int, bytes, float]:
    """Status, body and seconds of one POST /prove on a fresh connection."""
    start = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=REQUEST_DEADLINE_S)
    with contextlib.closing(connection):
        connection.request("POST", "/prove", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = response.read()
    return response.status, answer, time.perf_counter() - start


def wait_until_healthy(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Returns once GET /health answers 200; ends the program when it does not in time."""
    deadline = time.monotonic() + START_DEADLINE_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
            with contextlib.closing(connection):
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return
        time.sleep(0.2)
    sys.exit(f"a server did not become healthy; its output ends with:\n{log.read_text(errors='replace')[-2000:]}")


@contextlib.contextmanager
def running(name: str, command: list[str], port: int) -> Iterator[int]:
    """Runs a server until the block ends; yields its port."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=folder)
        try:
            wait_until_healthy(port, process, log)
            yield port
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def command(binary: str, keys_dir: Path, port: int, *extra: str) -> list[str]:
    """`start` with flags that both programs know."""
    metrics = f"127.0.0.1:{free_port()}"
    address = f"127.0.0.1:{port}"
    arguments = ["--keys-dir", f"{keys_dir}/", "--prover-address", address, "--metrics-address", metrics]
    return [binary, "start", *arguments, *extra]


def timed(port: int, body: bytes) -> float:
    """Seconds of one proof; ends the program when it fails."""
    status, answer, seconds = post(port, body)
    if status != 200:
        sys.exit(f"a proof failed with status {status}: {answer[:500]!r}")
    return seconds


def compare(rounds: int, reference_port: int, our_port: int) -> list[Comparison]:
    """Sends each request to both servers in turn."""
    results = []
    console = Console(stderr=True)
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("interleaved proofs", total=len(CASES) * (rounds + WARM_UP_ROUNDS))
        for circuit, file in CASES.items():
            body = (REQUESTS / file).read_bytes()
            theirs: list[float] = []
            ours: list[float] = []
            for _ in range(rounds + WARM_UP_ROUNDS):
                theirs.append(timed(reference_port, body))
                ours.append(timed(our_port, body))
                progress.advance(task)
            theirs, ours = theirs[WARM_UP_ROUNDS:], ours[WARM_UP_ROUNDS:]
            medians = statistics.median(theirs), statistics.median(ours)
            results.append(
                Comparison(circuit, rounds, *medians, min(theirs), min(ours), round(medians[0] / medians[1], 3))
            )
    return results


def show(results: list[Comparison]) -> None:
    """Prints the table."""
    table = Table(title="Seconds per proof over HTTP, keys resident; the reference is gnark 0.8 in Go (0.27.0)")
    for heading in ("circuit", "reference", "ours", "times faster", ""):
        table.add_column(heading, justify="left" if heading in ("circuit", "") else "right")
    for r in results:
        bar = "█" * round(8 * r.ratio)
        table.add_row(r.circuit, f"{r.reference_median_s:.3f}", f"{r.ours_median_s:.3f}", f"{r.ratio:.2f}", bar)
    Console().print(table)


def record(results: list[Comparison], history: Path) -> None:
    """Appends the results to the history."""
    machine = {"machine": platform.machine(), "system": platform.system(), "processors": os.cpu_count()}
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with history.open("a") as out:
        out.write(json.dumps({"time": stamp, **machine, "results": [asdict(r) for r in results]}) + "\n")


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="measured rounds per circuit (default 10)")
    parser.add_argument("--history", type=Path, default=HISTORY, help="JSON-lines file to append to")
    options = parser.parse_args()
    keys_dir = reference_fixtures.proving_keys_dir()
    reference = str(reference_fixtures.prover_binary())
    reference_port, our_port = free_port(), free_port()
    with (
        running("reference", command(reference, keys_dir, reference_port, "--run-mode", "local-rpc"), reference_port),
        running("ours", command(OURS, keys_dir, our_port), our_port),
    ):
        results = compare(options.rounds, reference_port, our_port)
    show(results)
    record(results, options.history)
    slow = [r.circuit for r in results if r.ratio < REQUIRED_RATIO]
    if slow:
        print(f"below {REQUIRED_RATIO} times the reference: {', '.join(slow)}", file=sys.stderr)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
