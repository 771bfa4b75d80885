"""Pages that are generated say what the program says, and the page of errors has every code."""

import json
import re
from pathlib import Path

import pytest
import regenerate_reference

from prover.cli.main import COMMANDS
from prover.settings import DeviceSettings, Settings, settings_of

CONTRACTS = Path(__file__).resolve().parents[2] / "contracts"

pytestmark = pytest.mark.usefixtures("no_variables")


@pytest.mark.parametrize("path", regenerate_reference.pages(), ids=lambda path: path.name)
def test_page__as_committed__is_that_of_the_program(path: Path) -> None:
    assert path.read_text() == regenerate_reference.pages()[path], f"run {regenerate_reference.SCRIPT}"


def test_settings_page__has_every_setting_with_its_option_default_and_meaning() -> None:
    rows = [line for line in regenerate_reference.settings_page().splitlines() if line.startswith("| `PROVER_")]
    grouped = [getattr(Settings(), name) for name in ("http", "keys", "proving", "queue", "log")]
    assert len(rows) == len(settings_of(DeviceSettings)) + sum(len(settings_of(type(group))) for group in grouped)
    (row,) = (row for row in rows if "PROVER_KEYS__MEMORY_GIB" in row)
    assert [cell.strip() for cell in row.split("|")[2:4]] == ["`--key-memory-gb`", "`0`"]
    assert "half of the total" in row


def test_commands_page__has_every_command() -> None:
    headings = re.findall(
        r"^## (.+)$", (regenerate_reference.SERVICE / "docs/reference" / "commands.md").read_text(), flags=re.MULTILINE
    )
    assert {f"prover {name}" for name in COMMANDS} <= set(headings)


def test_errors_page__has_every_code_with_its_statuses_and_whether_to_retry() -> None:
    page = (regenerate_reference.SERVICE / "docs/reference" / "errors.md").read_text()
    rows = {row[0]: row[1:] for row in re.findall(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \|", page, flags=re.MULTILINE)}
    contract = json.loads((CONTRACTS / "problem-codes.json").read_text())
    assert set(rows) == set(contract)
    for code, (statuses, retry) in rows.items():
        expected = {str(answer["status"]) for answer in contract[code]}
        assert expected <= set(statuses.split(", ")), code
        retryable = {answer["retryable"] for answer in contract[code]}
        assert retry == {(True,): "yes", (False,): "no"}.get(tuple(retryable), retry), code
        assert len(retryable) == 1 or retry.startswith(("if", "see")), code
