"""The simulated cluster: workers that the chart's ScaledObject scales. In full: `make soak`."""

import re
import subprocess
import sys
from pathlib import Path

from rendered_chart import require_tools

BENCH = Path(__file__).resolve().parents[3] / "shared" / "bench" / "bench.py"


def run(*words: str) -> str:
    """Return the output of a command; fail with all of it unless its exit status is 0."""
    answer = subprocess.run([sys.executable, str(BENCH), *words], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


def test_cluster__bursts_from_zero_and_back__loses_no_job_and_ends_no_running_proof(
    redis_needed: None, reference_keys_dir: Path
) -> None:
    require_tools()
    words = ["--jobs", "40", "--bursts", "1", "--pause", "1", "--jobs-per-replica", "2", "--speed", "60"]
    answer = run("soak", "cluster", *words, "--circuits", "v2_inclusion_32_1", "--patience", "300")
    assert re.search(r"lost +│ 0 ", answer)
    assert re.search(r"running proofs ended by scale-down +│ 0 ", answer)
    assert re.search(r"pods killed +│ 2 ", answer)
