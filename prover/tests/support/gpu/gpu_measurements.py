"""The programs that measure a prover on a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parents[4] / "shared" / "bench" / "bench.py"


def run(step: str, *words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a step of prover/bench/gpu.sh without settings of the prover."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PROVER_", "COVERAGE"))}
    return subprocess.run(
        [sys.executable, BENCH, "gpu", step, *words], capture_output=True, text=True, env=kept | variables, timeout=280
    )


def measured(library: Path, key: Path, request: Path, *words: str, **variables: str) -> tuple[int, Any, str]:
    """Exit status, result and complaints of the measurement of a server."""
    answer = run("service", *words, "--cuda-library", library, key, request, **variables)
    return answer.returncode, json.loads(answer.stdout) if answer.stdout else None, answer.stderr
