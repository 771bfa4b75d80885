"""Short runs of faults in the queue and of load on it. In full: `make soak` and `make bench-queue`.

The soak of a cluster is sampled by the acceptance tests, because its programs take minutes to build.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[4] / "shared" / "bench" / "bench.py"


def run(*words: str) -> str:
    """Return the output of a command; fail with all of it unless its exit status is 0."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PROVER_", "COVERAGE"))}
    command = [sys.executable, str(BENCH), *words]
    answer = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=560)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


def test_queue__of_failing_workers_servers_redis_and_network__loses_no_job(
    redis_needed: None, reference_keys_dir: Path, reference_batch_keys_dir: Path
) -> None:
    circuits = "v2_inclusion_32_1,v2_non-inclusion_40_1,v1_inclusion_26_1"
    words = ["--jobs", "24", "--batch-proofs", "0", "--circuits", circuits, "--rounds", "1", "--pause", "1"]
    # Attempts are spent by faults here, not by jobs.
    answer = run(
        "soak", "queue", *words, "--lease-s", "3", "--attempts", "20", "--independent", "3", "--patience", "400"
    )
    assert re.search(r"lost +│ 0 ", answer)
    assert re.search(r"faults injected +│ 9 ", answer)


def test_queue__with_ten_times_the_jobs__costs_redis_the_same_per_request(
    redis_needed: None, reference_keys_dir: Path
) -> None:
    # So many statuses that a sweep after the start, which reads hundreds of waiting jobs, adds little to each.
    words = ["--jobs", "400", "--clients", "16", "--polls", "2000", "--intervals", "0"]
    assert "redis KiB per job" in run("queue", *words)


def test_fleet__of_simulated_workers__ends_every_job_with_a_proof_while_clients_poll(redis_needed: None) -> None:
    words = ["--workers", "6", "--processes", "2", "--proof-s", "0.2", "--jobs", "60"]
    answer = run("soak", "fleet", *words, "--pollers", "8", "--rate", "20", "--idle", "0.5", "--patience", "120")
    assert re.search(r"every job ends with a proof │ True │ 60 of 60", answer)
    phases = dict(re.findall(r"^│ (idle|submissions|statuses) +│ [\d.]+ +│ (\d+) ", answer, flags=re.MULTILINE))
    assert phases["idle"] == "0"
    assert phases["submissions"] == "60"
    # Six workers need two seconds for 60 proofs.
    assert int(phases["statuses"]) >= 20
