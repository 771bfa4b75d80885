"""The benchmark of the kernel's parts with another program: its comparison, and its gate."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[4] / "shared" / "bench" / "bench.py"
OURS = [
    {"name": "clock", "ns": 9.0},
    {"name": "fp_mul_tput", "ns": 20.0},
    {"name": "fp8_mul_tput", "ns": 10.0},
    {"name": "msm_g1_13", "ms": 105.0},
    {"name": "msm_g1_13_f16", "ms": 80.0},
]
Program = Callable[[str, list[dict[str, Any]]], Path]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Gives a program that answers every line with the same records."""

    def make(name: str, records: list[dict[str, Any]]) -> Path:
        path = tmp_path / name
        lines = "\n".join(map(json.dumps, records))
        path.write_text(f"#!/bin/sh\nwhile read _; do cat <<'END'\n{lines}\n\nEND\ndone\n")
        path.chmod(0o755)
        return path

    return make


def run(ours: Path, peer: Path, *words: str) -> tuple[int, str, dict[str, float]]:
    """Exit code, messages, and the ratios of what both have."""
    history = ours.with_name("history.jsonl")
    command = [
        sys.executable,
        str(BENCH),
        "kernel",
        "--program",
        str(ours),
        "--peer",
        str(peer),
        "--history",
        str(history),
    ]
    answer = subprocess.run([*command, "--rounds", "2", *words], capture_output=True, text=True, check=False)
    results = json.loads(history.read_text().splitlines()[-1])["results"]
    return answer.returncode, answer.stderr, {r["name"]: r["ratio"] for r in results if "ratio" in r}


def test_kernel__next_to_a_peer_without_lanes_and_tables__has_its_plain_ones_in_their_place(program: Program) -> None:
    peer = [{"name": "fp_mul_tput", "ns": 30.0}, {"name": "msm_g1_13", "ms": 210.0}]
    code, _, ratios = run(program("ours", OURS), program("peer", peer))
    assert code == 0
    assert ratios == {"fp_mul_tput": 1.5, "fp8_mul_tput": 3.0, "msm_g1_13": 2.0, "msm_g1_13_f16": 2.62}


@pytest.mark.parametrize(("percent", "worse"), [("4", ["msm_g1_13"]), ("6", [])])
def test_kernel__with_a_gate__fails_for_medians_that_are_longer_than_before(
    program: Program, percent: str, worse: list[str]
) -> None:
    before = [{**record, "ns": 1.0} if record["name"] == "clock" else dict(record) for record in OURS]
    before[3]["ms"] = 100.0
    code, messages, _ = run(program("ours", OURS), program("before", before), "--gate", percent)
    assert code == (1 if worse else 0)
    assert (f"more than {percent} %: msm_g1_13\n" in messages) == bool(worse)
