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

FAULTS = ("transactions dropped", "indexer: lags", "wrong leaf")
BRIEFLY = ["--hold", "1", "--rest", "0", "--slot-ms", "60"]
LIES = ("fees", "rent", "full trees", "expiry", "heights")
QUICKLY = ["--hold", "1", "--slot-ms", "60", "--patience", "3"]
DAY = ["--hours", "0.5", "--slots-per-second", "600", "--sample-every", "1"]

pytestmark = pytest.mark.skipif(not LOCALNET.is_file() or not PROGRAMS.is_dir(), reason="make setup reference-fixtures")


def report_of(subject: str, *options: str) -> dict[str, Any]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    done = subprocess.run(
        [sys.executable, str(BENCH), "forester", subject, *options, "--json"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert done.stdout, done.stderr
    reported: dict[str, Any] = json.loads(done.stdout)
    return reported


def test_forester__services_fail_one_after_another__loses_nothing_and_makes_no_proof_twice(tmp_path: Path) -> None:
    reported = report_of("faults", *QUICKLY, "--only", *FAULTS, "--logs", str(tmp_path))
    faults, kept = reported["tables"]["faults"], {item["bound"]: item["kept"] for item in reported["checks"]}
    assert len(faults) == len(FAULTS)
    assert {fault["fault"]: fault["missed"] for fault in faults if fault["missed"]} == {}
    assert all(fault["proofs"] for fault in faults), "there was work in every fault"
    # A machine that is too slow for epochs of 12 s may miss one.
    assert {bound for bound in kept if not kept[bound]} <= {"every epoch is reported"}


def test_forester__node_lies_about_fees_rent_expiry_and_heights__costs_at_most_its_budget(tmp_path: Path) -> None:
    reported = report_of("lies", *BRIEFLY, "--budget", "0.012", "--exhaust", "--logs", str(tmp_path))
    assert [item for item in reported["checks"] if not item["kept"]] == []
    assert {cost["lie"] for cost in reported["tables"]["costs"]} == {"nothing", *LIES, "fees until the budget is spent"}
    assert 0 < reported["figures"]["sol"] <= 0.012, "it is a budget that the lies can spend"


def test_forester__half_an_hour_at_an_accelerated_clock__reports_its_epoch_and_leaves_nothing(tmp_path: Path) -> None:
    chart = tmp_path / "memory.svg"
    reported = report_of("day", *DAY, "--logs", str(tmp_path), "--chart", str(chart))
    checks = {item["bound"]: item["kept"] for item in reported["checks"]}
    assert checks["every epoch is reported"]
    assert checks["every queue holds less than a batch"]
    assert checks["no defect is in the log"]
    assert reported["figures"]["transactions"] > 0
    assert len(reported["tables"]["samples"]) > 2
    assert "polyline" in chart.read_text()
