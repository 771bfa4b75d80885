"""Short runs of the soaks: mixed requests and hostile clients. `make soak` is the full run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[4] / "shared" / "bench" / "bench.py"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PROVER_", "COVERAGE"))}
    return subprocess.run(
        [sys.executable, str(BENCH), *words],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=280,
    )


def test_soak__of_mixed_requests__finds_no_fault(reference_keys_dir: Path) -> None:
    # Memory settles only after thousands of requests; here it must not run away.
    answer = run("soak", "http", "--requests", "150", "--clients", "6", "--growth-mib", "96")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "growth" in answer.stdout


def test_soak__of_hostile_clients__leaves_every_honest_request_and_probe_answered(reference_keys_dir: Path) -> None:
    answer = run("soak", "hostile", "--seconds", "2", "--rounds", "1", "--ratio", "0")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "hostile connections" in answer.stdout
