"""Values of the chart for a demand: replicas by time, memory by the prover's budgets, disk, and the capacity page."""

from __future__ import annotations

import re
from pathlib import Path

import click
import jsonschema
import pytest
import yaml  # type: ignore[import-untyped]
from click.testing import CliRunner

from prover.cli.checks.sizing import chart_values, replicas_for, sizing_notes, yaml_text
from prover.cli.main import cli
from prover.cli.options.sizing import Demand, sizing_option
from prover.keys.catalogue.circuits import CIRCUIT_GROUPS, PUBLISHED_CIRCUITS
from prover.keys.catalogue.key_estimates import file_bytes, resident_bytes, scratch_bytes

DOCS = Path(__file__).resolve().parents[3] / "docs"
(APPEND,) = CIRCUIT_GROUPS["append-test"]
(ADDRESS,) = CIRCUIT_GROUPS["address-append"]

pytestmark = pytest.mark.usefixtures("no_variables")


def demands(*words: str) -> tuple[Demand, ...]:
    """Return what the option makes of words."""

    @click.command()
    @sizing_option
    def command(sizing: tuple[Demand, ...]) -> tuple[Demand, ...]:
        return sizing

    arguments = [argument for word in words for argument in ("--sizing", word)]
    found: tuple[Demand, ...] = command.main(arguments, standalone_mode=False)
    return found


def mebibytes(text: str) -> int:
    assert text.endswith("Mi")
    return int(text[:-2]) * 2**20


def test_option__of_a_run_mode__demands_the_rate_of_each_kind() -> None:
    found = demands("forester=2.5")
    assert [demand.names for demand in found] == [["append"], ["update"], ["address-append"]]
    assert {demand.per_second for demand in found} == {2.5}
    (single,) = demands("v2_inclusion_32_1=4")
    assert single.names == ["v2_inclusion_32_1"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["append"], "write for example append=2"),
        (["append=0"], "write for example append=2"),
        (["append=inf"], "write for example append=2"),
        (["nothing=1"], "or a run mode: local-rpc, rpc"),
        (["rpc=1", "inclusion=2"], "v1_inclusion_26_1 is sized twice"),
    ],
)
def test_option__malformed__names_itself_and_the_remedy(words: list[str], message: str) -> None:
    with pytest.raises(click.BadParameter, match=re.escape(message)) as caught:
        demands(*words)
    assert "--sizing" in caught.value.format_message()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--device", "cuda"), 2, "--device cpu"),
        (("--run-mode", "rpc"), 2, "--run-mode or --circuit excludes"),
        ((), 69, "prover download --circuit append"),
    ],
)
def test_check__that_cannot_measure__says_what_to_change(
    tmp_path: Path, words: tuple[str, ...], code: int, message: str
) -> None:
    answer = CliRunner().invoke(cli, ["check", "--keys-dir", str(tmp_path), "--sizing", "append=1", *words])
    assert answer.exit_code == code, answer.output
    assert message in answer.output
    assert answer.stdout == ""


@pytest.mark.parametrize(
    ("per_second", "seconds", "expected"), [(0.1, 0.05, 1), (1, 0.7, 1), (1, 0.71, 2), (10, 0.7, 10), (1000, 1.4, 2000)]
)
def test_replicas__of_a_rate__leave_the_share_that_is_not_used(
    per_second: float, seconds: float, expected: int
) -> None:
    assert replicas_for(per_second, seconds) == expected


def test_values__of_batches__are_a_pool_for_each_kind() -> None:
    wanted = demands("append-test=2", "append=0.01", "address-append=0.5")
    seconds = dict.fromkeys((APPEND, *CIRCUIT_GROUPS["append"]), 0.7) | {ADDRESS: 140.0}
    values = chart_values(wanted, seconds, 4)
    assert values.keys() == {"workers", "autoscaling", "keys"}
    assert values["workers"]["append"]["circuits"] == ["append-test", "append"]
    assert [values["workers"][kind]["replicas"] for kind in ("append", "address-append")] == [3, 100]
    assert values["autoscaling"]["maxReplicas"] == 100
    assert [values["workers"][kind]["drainDeadlineSeconds"] for kind in ("append", "address-append")] == [60, 420]
    assert values["keys"]["circuits"] == ["append-test", "append", "address-append"]


@pytest.mark.parametrize("word", ["forester=1", "forester-test=1"])
def test_values__of_batches__give_each_half_of_the_limit_what_it_needs(word: str) -> None:
    wanted = demands(word)
    values = chart_values(wanted, dict.fromkeys(PUBLISHED_CIRCUITS, 1.0), 8)
    for demand in wanted:
        resources = values["workers"][demand.kind.value]["resources"]
        limit, request = (mebibytes(resources[name]["memory"]) for name in ("limits", "requests"))
        (circuit,) = demand.circuits
        assert limit / 2 >= max(resident_bytes(circuit), scratch_bytes(circuit, 8))
        assert limit >= request > resident_bytes(circuit) + scratch_bytes(circuit, 8)
        assert resources["limits"]["cpu"] == resources["requests"]["cpu"] == "8"
    disk = int(values["keys"]["claim"]["size"].removesuffix("Gi")) * 2**30
    needed = sum(file_bytes(demand.circuits[0]) + resident_bytes(demand.circuits[0]) for demand in wanted)
    assert needed < disk < 1.2 * needed + 2**30


def test_values__of_direct_proofs__are_for_the_slowest_measured_circuit() -> None:
    wanted = demands("inclusion=10", "combined=1")
    inclusion = CIRCUIT_GROUPS["inclusion"]
    seconds = {circuit: 0.01 * circuit.sizes[0] for circuit in inclusion if circuit.sizes[0] <= 4}
    seconds[min(CIRCUIT_GROUPS["combined"], key=str)] = 0.1
    values = chart_values(wanted, seconds, 8)
    assert values.keys() == {"api", "keys"}
    assert values["api"]["replicas"] == 1  # (10 * 0.04 + 0.1) / 0.7
    assert values["api"]["maxConcurrency"] == 4
    assert any(f"Only 8 of {len(inclusion)} circuits of inclusion" in note for note in sizing_notes(wanted, seconds, 8))


@pytest.mark.parametrize("words", [["full=3"], ["local-rpc=2"], ["append-test=0.001"]])
def test_yaml__of_values__is_what_the_schema_of_the_chart_accepts(words: list[str]) -> None:
    wanted, seconds = demands(*words), dict.fromkeys(PUBLISHED_CIRCUITS, 2.0)
    values = chart_values(wanted, seconds, 2)
    read = yaml.safe_load(yaml_text(values, sizing_notes(wanted, seconds, 2)))
    assert read == values
    schema = yaml.safe_load((DOCS.parent / "deploy/chart/values.schema.json").read_text())
    jsonschema.validate(read, schema)


def test_capacity_page__pods_by_rate__follow_from_measured_times() -> None:
    name, measured = "", {}
    for line in (DOCS / "explanation/measurements.md").read_text().partition("## Each circuit alone")[2].splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == 11:
            name = cells[0] or name
            measured[name, cells[1]] = cells[2]
    rows = (DOCS / "how-to/capacity.md").read_text().partition("## Pods by rate")[2].partition("## API")[0]
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in rows.splitlines() if line.startswith("| ")][
        1:
    ]
    assert [row[0] for row in table] == [name for name, cpus in measured if cpus == "2"]
    for name, milliseconds, *pods in table:
        assert milliseconds == measured[name, "2"]
        seconds = float(milliseconds.replace(",", "")) / 1000
        assert pods == [f"{replicas_for(rate, seconds):,}" for rate in (1, 10, 100, 1000)], name
