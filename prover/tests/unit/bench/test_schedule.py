"""The schedule of a proof's tasks over many processors, against one worked out by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[3] / "bench/schedule.py"
MS = 1_000_000
# The second entry waits for the first; the third, which is free, comes after both.
JOB = [
    {"entry": 0, "group": 0, "after": 0, "ns": [3 * MS] * 3},
    {"entry": 2, "group": 2, "after": 0, "ns": [5 * MS] * 2},
    {"entry": 1, "group": 1, "after": 1, "ns": [4 * MS]},
]


def test_schedule__tasks_with_dependencies__free_processors_take_the_first_that_is_ready(tmp_path: Path) -> None:
    records = [{"threads": threads, "backend": "adx", "serial_ns": MS, "jobs": [JOB, JOB[:1]]} for threads in (1, 2)]
    program = tmp_path / "tasks"
    program.write_text("#!/bin/sh\ncat <<'END'\n" + "\n".join(map(json.dumps, records)) + "\nEND\n")
    program.chmod(0o755)
    path = str(program)
    words = [sys.executable, str(SCRIPT), "--program", path, "--key", path, "--inputs", path]
    answer = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    rows = json.loads(answer.stdout.splitlines()[-1])["results"]
    # One processor: 1 + 23 + 9. Two: 13 (3, 3 and 5 beside 4; then 5), and 6. Any number: 3 + 4, and 3.
    assert [row["latency_ms"] for row in rows] == [33, 20]
    assert [row["processor_ms"] for row in rows] == [33, 33]
    assert [row["critical_path_ms"] for row in rows] == [11, 11]
    assert [row["tasks"] for row in rows] == [9, 9]
    assert rows[1]["speed_up"] == 1.65
    assert rows[1]["efficiency"] == 0.825
