"""A sample of the soak: mixed requests to a process of its own, and its memory. `make soak` is the full form."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SOAK = Path(__file__).resolve().parents[2] / "bench" / "soak_http.py"


def test_soak__of_mixed_requests__finds_no_fault(reference_keys_dir: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PROVER_", "COVERAGE"))}
    # Memory settles only after thousands of requests; here it must not run away.
    words = ["--requests", "150", "--clients", "6", "--growth-mib", "96"]
    answer = subprocess.run(
        [sys.executable, str(SOAK), *words], capture_output=True, text=True, check=False, env=environment, timeout=280
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "growth" in answer.stdout
