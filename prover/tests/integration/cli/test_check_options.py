"""``prover check`` checks what ``prover start`` would do with the same options and variables."""

import json
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from prover.cli.commands.check import check as check_command
from prover.cli.commands.start import start as start_command
from prover.cli.main import cli

pytestmark = pytest.mark.usefixtures("no_variables")

Found = dict[str, dict[str, str]]


def check(*words: str) -> tuple[int, Found]:
    addresses = ("--prover-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0")
    result = CliRunner().invoke(cli, ["check", "--output", "json", *addresses, *words])
    assert result.exit_code in (0, 1), result.output
    return result.exit_code, {entry["name"]: entry for entry in json.loads(result.stdout)["checks"]}


def test_check__of_options__takes_all_that_start_does() -> None:
    options = {word for parameter in check_command.params for word in parameter.opts}
    assert {word for parameter in start_command.params for word in parameter.opts} <= options


def test_check__of_an_address_in_use__names_the_variable_that_gave_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setenv("PROVER_HTTP__ADDRESS", f"127.0.0.1:{taken.getsockname()[1]}")
        result = CliRunner().invoke(cli, ["check", "--output", "json", "--metrics-address", "127.0.0.1:0"])
    [found] = [entry for entry in json.loads(result.stdout)["checks"] if entry["name"] == "API address"]
    assert found["status"] == "failure"
    assert found["hint"].endswith("choose another address with PROVER_HTTP__ADDRESS")


def test_check__with_a_total_of_memory__divides_it_as_start_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVER_TOTAL_MEMORY_GB", "8")
    _, found = check("--run-mode", "forester", "--auto-download")
    assert "the budget is 4.0 GiB" in found["memory for keys"]["detail"]
    assert found["memory for keys"]["status"] == "failure"
    assert "the budget is 4.0 GiB" in found["memory for proofs"]["detail"]


@pytest.mark.parametrize(
    ("variable", "value", "selected"),
    [("RUN_MODE", "forester", 3), ("CIRCUITS", "append,update", 2), ("PRELOAD", "rpc", 83)],
)
def test_check__with_variables_about_keys__asks_for_those_keys(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, value: str, selected: int
) -> None:
    monkeypatch.setenv(f"PROVER_KEYS__{variable}", value)
    code, found = check("--keys-dir", str(tmp_path))
    assert code == 1
    assert found["keys"]["detail"].startswith(f"0 of {selected} are installed")
    monkeypatch.setenv("PROVER_KEYS__AUTO_DOWNLOAD", "true")
    _, found = check("--keys-dir", str(tmp_path))
    assert found["keys"]["status"] == "warning"


def test_check__of_an_empty_folder__names_the_command_that_fills_it(tmp_path: Path) -> None:
    code, found = check("--keys-dir", str(tmp_path))
    assert (code, found["keys"]["status"]) == (1, "failure")
    assert found["keys"]["hint"] == f"run `prover download --run-mode MODE --keys-dir {tmp_path}`"


def test_check__of_preloaded_keys__asks_whether_all_of_them_fit_at_once(tmp_path: Path) -> None:
    words = ("--keys-dir", str(tmp_path), "--auto-download", "--preload-circuits", "append,update")
    code, found = check(*words, "--key-memory-gb", "5")
    assert code == 1
    assert found["memory for keys"]["status"] == "warning"
    assert found["memory for preload"]["status"] == "failure"
    assert "--key-memory-gb" in found["memory for preload"]["hint"]
    _, found = check(*words, "--key-memory-gb", "64")
    assert found["memory for preload"]["status"] == "ok"
    _, found = check("--keys-dir", str(tmp_path), "--auto-download", "--run-mode", "forester")
    assert "memory for preload" not in found


def test_check__with_what_start_refuses__refuses_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVER_TOTAL_MEMORY_GB", "much")
    result = CliRunner().invoke(cli, ["check"])
    assert result.exit_code == 78
    assert "PROVER_TOTAL_MEMORY_GB" in result.output
    monkeypatch.delenv("PROVER_TOTAL_MEMORY_GB")
    result = CliRunner().invoke(cli, ["check", "--auto-download", "--download-url", "nowhere"])
    assert result.exit_code == 2
    assert "--download-url" in result.output


def test_check__with_an_unknown_variable__warns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVER_KEYS_DIRECTORY", "x")
    _, found = check()
    assert found["variables"]["status"] == "warning"
    assert "PROVER_KEYS__DIRECTORY" in found["variables"]["detail"]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PROVER_HTTP__API_KEY_FILE", "keys"),
        ("PROVER_HTTP__API_KEYS_FILE", "/nonexistent/keys"),
        ("PROVER_HTTP__API_KEYS", "bad"),
    ],
)
@pytest.mark.parametrize("command", ["check", "start"])
def test_command__with_api_keys_that_cannot_be_read__refuses_them(
    monkeypatch: pytest.MonkeyPatch, command: str, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    addresses = ("--prover-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0")
    result = CliRunner().invoke(cli, [command, *addresses])
    assert result.exit_code == 78, result.output


def test_check__next_to_an_entry_that_is_no_key__warns(tmp_path: Path) -> None:
    (tmp_path / "v1_inclusion_26_1.key").symlink_to(tmp_path / "nowhere")
    result = CliRunner().invoke(cli, ["check", "--output", "json", "--keys-dir", str(tmp_path)])
    entries = [entry for entry in json.loads(result.stdout)["checks"] if entry["name"] == "keys"]
    assert entries[0]["detail"] == "v1_inclusion_26_1.key is a link to a missing file"
    assert entries[0]["status"] == "warning"


def test_check__of_a_worker_without_api__leaves_the_api_address_out() -> None:
    _, found = check("--queue-only", "--redis-url", "redis://127.0.0.1:1", "--prover-address", "192.0.2.1:1")
    assert "API address" not in found
    assert found["Redis"]["status"] == "failure"
    _, found = check("--server-only", "--redis-url", "redis://127.0.0.1:1")
    assert "Redis" not in found


def test_check__of_short_api_keys__warns_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVER_API_KEY", "sekret")
    monkeypatch.setenv("PROVER_HTTP__API_KEYS", "short=fifteen-letters,long=sixteen-letters-")
    _, found = check()
    assert found["API keys"]["status"] == "warning"
    assert found["API keys"]["detail"].startswith("default, short: ")
    monkeypatch.setenv("PROVER_API_KEY", "")
    monkeypatch.setenv("PROVER_HTTP__API_KEYS", "long=sixteen-letters-")
    assert "API keys" not in check()[1]
