"""What measures a prover on a GPU, as programs of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parents[2] / "bench"


def run(program: str, *words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program of prover/bench without settings of the prover."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PROVER_", "COVERAGE"))}
    return subprocess.run(
        [sys.executable, BENCH / program, *words], capture_output=True, text=True, env=kept | variables, timeout=280
    )


def measured(library: Path, key: Path, request: Path, *words: str, **variables: str) -> tuple[int, Any, str]:
    """Exit status, result and complaints of gpu_service.py."""
    answer = run("gpu_service.py", *words, "--cuda-library", library, key, request, **variables)
    return answer.returncode, json.loads(answer.stdout) if answer.stdout else None, answer.stderr
