"""A whole forester under faults, and for a while at an accelerated clock: samples of ``make forester-soak``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from localnet_process import LOCALNET, PROGRAMS, WORKSPACE

BENCH = WORKSPACE / "shared" / "bench" / "bench.py"
DEADLINE_S = 500
"""Far more than a loaded machine needs."""

FAULTS = ("transactions dropped", "indexer: lags", "wrong hash chain")
BRIEFLY = ["--hold", "1", "--rest", "0", "--slot-ms", "60"]
LIES = ("fees", "rent", "full trees", "expiry", "heights")
QUICKLY = ["--hold", "1", "--slot-ms", "60", "--patience", "3"]
DAY = ["--hours", "0.5", "--slots-per-second", "600", "--sample-every", "1"]

pytestmark = pytest.mark.skipif(not LOCALNET.is_file() or not PROGRAMS.is_dir(), reason="make setup reference-fixtures")


def told_by(command: str, *options: str) -> dict[str, Any]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    done = subprocess.run(
        [sys.executable, str(BENCH), command, *options, "--json"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert done.stdout, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_forester__services_fail_one_after_another__loses_nothing_and_makes_no_proof_twice(tmp_path: Path) -> None:
    told = told_by("forester-faults", *QUICKLY, "--only", *FAULTS, "--logs", str(tmp_path))
    assert len(told["faults"]) == len(FAULTS)
    assert {fault["fault"]: fault["missed"] for fault in told["faults"] if fault["missed"]} == {}
    assert all(fault["proofs"] for fault in told["faults"]), "there was work in every fault"
    # A machine that is too slow for epochs of 12 s may miss one.
    assert told["missed"].keys() <= {"every epoch is reported"}


def test_forester__node_lies_about_fees_rent_expiry_and_heights__costs_at_most_its_budget(tmp_path: Path) -> None:
    told = told_by("forester-lies", *BRIEFLY, "--budget", "0.012", "--exhaust", "--logs", str(tmp_path))
    assert told["missed"] == []
    costs = {cost["lie"]: cost for cost in told["costs"]}
    assert costs.keys() == {"nothing", *LIES, "fees until the budget is spent"}
    assert told["exhausted"], "it is a budget that the lies can spend"
    assert 0 < told["total"] <= 0.012


def test_forester__half_an_hour_at_an_accelerated_clock__reports_its_epoch_and_leaves_nothing(tmp_path: Path) -> None:
    chart = tmp_path / "memory.svg"
    told = told_by("forester-day", *DAY, "--logs", str(tmp_path), "--chart", str(chart))
    checks = {item["check"]: item["kept"] for item in told["checks"]}
    assert checks["every epoch is reported"]
    assert checks["every queue holds less than a batch"]
    assert checks["no task crashed"]
    assert told["figures"]["transactions"] > 0
    assert len(told["figures"]["resident_mib"]) > 2
    assert "polyline" in chart.read_text()
