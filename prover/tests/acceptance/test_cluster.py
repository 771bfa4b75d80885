"""A sample of `make soak`: the chart on a Kubernetes control plane, from zero workers to two and back."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[3] / "shared/bench/bench.py"


@pytest.mark.skipif(shutil.which("go") is None, reason="go, which builds the cluster's programs, is not installed")
@pytest.mark.timeout(3600)
def test_cluster__one_cycle_with_a_kill_and_an_upgrade__keeps_all_bounds() -> None:
    words = ["soak", "cluster", "--jobs", "40", "--cycles", "1", "--replicas", "2"]
    answer = subprocess.run([sys.executable, BENCH, *words], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr[-4000:]
