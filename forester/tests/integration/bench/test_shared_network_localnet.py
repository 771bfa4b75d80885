"""Two foresters share the trees of a network while one of them is killed: the sample of ``make forester-soak``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from localnet_process import LOCALNET, PROGRAMS, WORKSPACE

BENCH = WORKSPACE / "shared" / "bench" / "bench.py"
SAMPLE = ["--weights", "1", "2", "--epochs", "1", "--kills", "1", "--fault-every", "0", "--slot-ms", "80"]
DEADLINE_S = 400
"""Far more than a loaded machine needs."""

WHATEVER_THE_SPEED = (
    "every queue holds less than a batch",
    "roots of the chain are the indexer's",
    "kept proofs computed again after a restart",
    "no defect is in the log",
    "every forester ends with status 0",
)
"""The other bounds a machine may miss that is too slow for an epoch of 16 s."""


@pytest.mark.skipif(not LOCALNET.is_file() or not PROGRAMS.is_dir(), reason="make setup reference-fixtures")
def test_two_foresters__one_killed_at_random__leave_nothing_and_make_no_kept_proof_again(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    done = subprocess.run(
        [sys.executable, str(BENCH), "forester", "shared", *SAMPLE, "--json", "--logs", str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert done.stdout, done.stderr
    reported = json.loads(done.stdout)
    checks = {item["bound"]: item for item in reported["checks"]}
    assert [checks[name] for name in WHATEVER_THE_SPEED if not checks[name]["kept"]] == []
    assert reported["figures"]["kills"] == 1
    assert reported["figures"]["traffic"].keys() >= {"compress", "spend", "addresses", "v1_spend", "v1_addresses"}
    assert reported["figures"]["proofs"]["made"] > 0
    assert reported["figures"]["transactions"]["confirmed"] > 0
