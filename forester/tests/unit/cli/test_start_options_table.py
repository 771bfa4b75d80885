"""The commands have every option of the specification and of the reference, and each has a test that shows its effect.

The table is vectors/command_options.json. An option of the reference that means nothing here is refused with the
reason; a default that differs has one.
"""

from __future__ import annotations

import ast
import functools
import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from start_options import chosen

from forester.cli.check import check
from forester.cli.dashboard import dashboard
from forester.cli.health import health
from forester.cli.main import cli
from forester.cli.start import start
from forester.cli.status import status
from forester.settings import Settings
from forester.settings.reference_only import REFERENCE_ONLY, ignored_variables, variable_of
from forester.settings.sources import flag, variable

TESTS = Path(__file__).parents[2]
TABLE: dict[str, list[dict[str, Any]]] = json.loads((TESTS / "vectors" / "command_options.json").read_text())
COMMANDS: dict[str, click.Command] = {
    "start": start,
    "health": health,
    "status": status,
    "check": check,
    "dashboard": dashboard,
}
ROWS = [(command, row) for command in COMMANDS for row in TABLE[command]]
TAKEN = [(command, row) for command, row in ROWS if not row.get("refused")]
REFUSED = [(command, row) for command, row in ROWS if row.get("refused")]
SETTINGS = {flag(name): name for name in Settings.model_fields}
STARTED = [row for command, row in TAKEN if command == "start" and row["option"] in SETTINGS]

KEY = str(Keypair.from_seed(bytes([5]) * 32))
PUBKEY = str(Pubkey(bytes([6]) * 32))
NEGATIVE = ["-1", "x", "1.5", "99999999999999999999999999x"]
VALUES: dict[str, tuple[str, list[str]]] = {
    "url": ("https://host/path", ["ftp://host", "host", "https://"]),
    "ws_url": ("wss://host", ["https://host", "host"]),
    "text": ("words", []),
    "path": ("/some/file", []),
    "key": (KEY, ["[1,2]", "0OIl", "[]"]),
    "pubkey": (PUBKEY, ["[1,2]", "0OIl"]),
    "pubkeys": (PUBKEY, ["0OIl", f"{PUBKEY},nope"]),
    "whole": ("1", NEGATIVE),
    "whole16": ("65535", [*NEGATIVE, "65536"]),
    "positive": ("1", [*NEGATIVE, "0"]),
    "sol": ("0.25", ["0", "-1", "x", "nan", "inf", "1e10"]),
    "whole_or_none": ("1", NEGATIVE),
    "programs": (f"{PUBKEY}:6kRvHBv2N3F", [PUBKEY, f"{PUBKEY}:0OIl", "x:6kRvHBv2N3F", f"{PUBKEY}:2"]),
    "flag": ("true", ["maybe", "2"]),
    "v1|v2|all": ("v2", ["v3", "V1"]),
    "mainnet|devnet|none": ("devnet", ["testnet", "mainnet-beta", "Mainnet"]),
}
"""For each kind of value one that is accepted, and some that are not."""


def name_of(item: object) -> str | None:
    return item["option"] if isinstance(item, dict) else None


@pytest.fixture(autouse=True)
def _folder_without_dotenv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*words: str, **environment: str) -> tuple[int, str]:
    nothing: dict[str, str | None] = {variable(name): None for name in Settings.model_fields}
    result = CliRunner().invoke(cli, words, env=nothing | environment)
    return result.exit_code, " ".join(result.output.split())


def options_of(command: str) -> dict[str, click.Option]:
    """Return the options of a command by every spelling."""
    options = [item for item in COMMANDS[command].params if isinstance(item, click.Option)]
    return {spelled: option for option in options for spelled in option.opts}


@pytest.mark.parametrize("command", COMMANDS)
def test_table__of_a_command__has_all_its_options_and_no_other(command: str) -> None:
    assert options_of(command).keys() == {row["option"] for row in TABLE[command]}


def test_table__of_the_reference__has_61_options_and_none_of_the_specification_is_refused() -> None:
    theirs = [row for row in TABLE["start"] if row["source"] != "ours"]
    assert len(theirs) == 61
    assert {row["option"] for row in theirs if row.get("refused")} == REFERENCE_ONLY.keys()
    specified = [row for row in theirs if row["source"] == "specification"]
    assert len(specified) == 32
    assert not [row["option"] for row in specified if row.get("refused")]


@pytest.mark.parametrize(("command", "row"), TAKEN, ids=name_of)
def test_option__of_the_table__is_in_the_help_with_its_variable_and_its_default(
    command: str, row: dict[str, Any]
) -> None:
    option = options_of(command)[row["option"]]
    assert not option.hidden
    assert option.help
    name = option.name if option.name in Settings.model_fields else None
    default = row.get("our_default", row.get("default"))
    if name is None or "variable" not in row:
        reported = "true" if default is True else default
        assert row["kind"] in ("switch", "queues", "url") or option.default == reported
        return
    assert variable(name) == row["variable"]
    assert f"[{row['variable']}]" in option.help
    assert ("our_default" in row) is ("reason" in row)
    ours = getattr(Settings(), name)
    assert (list(ours) if isinstance(ours, tuple) else ours) == default
    if default not in (None, []):
        assert f"Default: {str(default).lower()}." in option.help


@functools.cache
def names_in(file: str) -> frozenset[str]:
    tree = ast.parse((TESTS / file).read_text())
    return frozenset(item.name for item in tree.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize(("command", "row"), TAKEN, ids=name_of)
def test_option__of_the_table__has_a_test_that_shows_its_effect(command: str, row: dict[str, Any]) -> None:
    assert row["shown_by"], command
    for place in row["shown_by"]:
        file, _, test = place.partition("::")
        assert test in names_in(file), place


@pytest.mark.parametrize("row", STARTED, ids=name_of)
def test_option__with_values_of_its_kind_and_others__takes_those_and_names_itself_for_these(
    row: dict[str, Any],
) -> None:
    good, bad = VALUES[row["kind"]]
    name = SETTINGS[row["option"]]
    before, after = getattr(Settings(), name), getattr(chosen(row["option"], good), name)
    assert after is not None
    assert after != before or str(before).lower() == good
    code, text = run("config", "show", "--output", "json", **{row["variable"]: good})
    assert code == 0, text
    assert f'"origin": "{row["variable"]}"' in text
    for value in bad:
        code, text = run("start", f"{row['option']}={value}")
        assert code == 2, (value, text)
        assert f"{row['option']}: " in text, value


def test_flags__bare_or_with_a_word__are_accepted_by_start() -> None:
    for name in ("enable_priority_fees", "api_server_public_bind", "helius_rpc"):
        for words, expected in (((), True), (("true",), True), (("false",), False)):
            assert getattr(chosen(flag(name), *words), name) is expected
            assert getattr(chosen(flag(name), *words, "--cu-limit", "7"), name) is expected


@pytest.mark.parametrize(("command", "row"), REFUSED, ids=name_of)
@pytest.mark.parametrize("form", ["{}", "{}=1", "{} 1"])
def test_option__of_the_reference_that_means_nothing_here__is_refused_with_the_reason_and_the_remedy(
    command: str, row: dict[str, Any], form: str
) -> None:
    code, text = run(command, *form.format(row["option"]).split())
    assert code == 2
    assert f"Error: {row['option']} is an option of the reference only: " in text
    assert "leave it out" in text
    assert row["option"] not in run(command, "--help")[1]


def test_variables__of_such_options__are_reported_and_change_nothing() -> None:
    assert {variable_of(row["option"]) for command, row in REFUSED if command == "start"} == {
        row["variable"] for command, row in REFUSED if command == "start"
    }
    reported = list(
        ignored_variables({"MAX_RETRIES": "3", "ENABLE_COMPRESSIBLE": "false", "RETRY_DELAY": "1", "PATH": ""})
    )
    assert [sentence.split(":")[0] for sentence in reported] == [
        "MAX_RETRIES changes nothing",
        "RETRY_DELAY changes nothing",
    ]
    code, text = run("config", "show", QUEUE_POLLING_MODE="onchain")
    assert code == 0
    assert "warning: QUEUE_POLLING_MODE changes nothing: ready work is always read from the chain" in text
