"""Foresters that close compressible accounts under faults: a sample of ``make forester-soak``."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from localnet_process import LOCALNET, PROGRAMS, WORKSPACE

BENCH = WORKSPACE / "shared" / "bench" / "bench.py"
DEADLINE_S = 700
FEW = ["--tokens", "15", "--mints", "2", "--program-accounts", "3"]

pytestmark = pytest.mark.skipif(not LOCALNET.is_file() or not PROGRAMS.is_dir(), reason="make setup reference-fixtures")


def test_accounts__under_faults__are_closed_once_and_paid_for() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    done = subprocess.run(
        [sys.executable, str(BENCH), "forester", "compressible", *FEW, "--json"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    assert len(report["checks"]) == 9
    assert [check for check in report["checks"] if not check["kept"]] == []
    assert report["figures"]["kills"] >= 2
