"""``prover check --sizing`` with a published key: its values, rendered by helm."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]
from in_process_service import circuit
from rendered_chart import check_references, check_schemas, rendered, require_tools

from prover.cli.checks.sizing import chart_values
from prover.cli.options.sizing import Demand
from prover.keys.catalogue.circuits import PUBLISHED_CIRCUITS
from prover.keys.catalogue.run_modes import RunMode, circuits_of

PROVER = Path(sys.executable).with_name("prover")
INCLUSION = circuit("v2_inclusion_32_1")


@pytest.mark.usefixtures("no_variables")
def test_sizing__with_a_published_key__prints_values_that_the_chart_takes(
    reference_keys_dir: Path, tmp_path: Path
) -> None:
    shutil.copy(reference_keys_dir / INCLUSION.earlier_key_file, tmp_path)
    command = [
        str(PROVER),
        "check",
        "--keys-dir",
        str(tmp_path),
        "--threads",
        "1",
        "--sizing",
        "v2_inclusion_32_1=1000",
    ]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert answer.returncode == 0, answer.stderr
    assert f"1000/s of inclusion: {INCLUSION} takes 0." in answer.stdout
    values = yaml.safe_load(answer.stdout)
    # A proof takes between 1 ms and 10 s on any machine.
    assert 1 < values["api"]["replicas"] < 15_000
    again = subprocess.run([*command, "--output", "json"], capture_output=True, text=True, timeout=120, check=True)
    assert json.loads(again.stdout)["keys"] == values["keys"]
    require_tools()
    (tmp_path / "sizing.yaml").write_text(answer.stdout)
    chart = rendered("prover", tmp_path / "sizing.yaml")
    check_schemas(chart)
    check_references(chart, own="prover-")
    (api,) = (found for found in chart.objects if found["kind"] == "Deployment")
    assert api["spec"]["replicas"] == values["api"]["replicas"]
    (container,) = api["spec"]["template"]["spec"]["containers"]
    assert container["resources"] == values["api"]["resources"]
    (claim,) = (found for found in chart.objects if found["kind"] == "PersistentVolumeClaim")
    assert claim["spec"]["resources"]["requests"]["storage"] == values["keys"]["claim"]["size"]


@pytest.mark.parametrize("scaled", [False, True])
def test_sizing__of_batches__makes_a_pool_of_workers_for_each_kind(scaled: bool) -> None:
    require_tools()
    demands = [Demand((wanted,), 2) for wanted in circuits_of(RunMode.FORESTER)]
    values = chart_values(demands, dict.fromkeys(PUBLISHED_CIRCUITS, 7.0), 4)
    values["autoscaling"]["enabled"] = scaled
    chart = rendered("prover", values, {"redis.existingSecret": "redis", "redis.address": "redis:6379"})
    check_schemas(chart)
    kind, field = ("ScaledObject", "maxReplicaCount") if scaled else ("Deployment", "replicas")
    found = {
        entry["metadata"]["name"]: entry["spec"][field]
        for entry in chart.objects
        if entry["kind"] == kind and not entry["metadata"]["name"].endswith("-api")
    }
    assert found == dict.fromkeys(("prover-append", "prover-update", "prover-address-append"), 20)
