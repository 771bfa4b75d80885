"""An allocation that fails inside the kernel is an error of that call, never the end of the process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

SUPPORT = Path(__file__).resolve().parents[2] / "support"


def test_kernel__short_of_memory_anywhere__reports_it_and_continues(tmp_path: Path) -> None:
    shim = tmp_path / "allocation_failures.so"
    source = SUPPORT / "kernel" / "allocation_failures.c"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", "-fno-builtin", "-o", str(shim), str(source), "-ldl", "-lpthread"], check=True
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    answer = subprocess.run(
        [sys.executable, str(SUPPORT / "kernel" / "allocation_failures.py")],
        capture_output=True,
        text=True,
        check=False,
        env=environment | {"LD_PRELOAD": str(shim), "PYTHONPATH": str(SUPPORT / "service")},
        timeout=280,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    found = {name: (int(count), int(spared)) for name, count, spared in re.findall(r"(.+): (\d+) (\d+)", answer.stdout)}
    assert set(found) >= {
        "engine",
        "load 0_8",
        "load 0_14",
        "load prepared",
        "prove",
        "verify",
        "verifying key",
        "solve",
    }
    assert found["engine"][0] >= 4
    assert found["load 0_8"][0] >= 20
    assert found["load 0_14"][0] >= 20
    # A call does without few allocations: those that only give memory back.
    assert all(spared <= count // 4 for count, spared in found.values()), found
