"""The command line without a network: version, help, settings and their origins, exit codes."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pytest
from command_line import run
from solders.keypair import Keypair

from forester.cli import command, status
from forester.errors import EndpointUnreachable, ForesterError

PAYER = Keypair.from_seed(bytes([9]) * 32)
PAYER_JSON = json.dumps(list(bytes(PAYER)))


@pytest.fixture(autouse=True)
def _folder_without_dotenv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("word", ["--version", "-V"])
def test_forester__version_asked__prints_the_version_of_the_distribution(word: str) -> None:
    assert run(word) == (0, f"forester {version('zkc-forester')}\n")


def test_forester__help_asked__names_the_commands_that_exist() -> None:
    code, text = run("--help")
    assert code == 0
    assert all(word in text for word in ("start", "status", "health", "check", "config"))


@pytest.mark.parametrize("command", [("start",), ("config",), ("config", "show"), ("status",)])
def test_help__of_a_command_with_invalid_variables__is_printed_alone(command: tuple[str, ...]) -> None:
    code, text = run(*command, "--help", FORESTER_LOG="bad", FORESTER_RPC_ULR="x")
    assert code == 0
    assert text.startswith(f"Usage: cli {' '.join(command)}")


def test_forester__unknown_command__is_a_usage_error() -> None:
    code, text = run("begin")
    assert code == 2
    assert "No such command 'begin'" in text


def test_config_show__urls_of_foresters__are_shown_without_credentials() -> None:
    urls = "http://user:pass-of-one@one:8080,http://two:8080"
    code, text = run("config", "show", "--output", "json", FORESTER_API_URLS=urls)
    assert code == 0, text
    assert "pass-of-one" not in text
    shown = json.loads(text)["forester_api_urls"]
    assert [url.split("@")[-1] for url in shown["value"]] == ["one:8080", "http://two:8080"]


def test_config_show__values_of_all_sources__are_reported_with_their_origin() -> None:
    code, text = run(
        *("config", "show", "--output", "json", "--cu-limit", "5"), RPC_URL="http://a", FORESTER_RPC_URL="http://b"
    )
    assert code == 0, text
    shown = json.loads(text)
    assert shown["cu_limit"] == {"value": 5, "origin": "--cu-limit"}
    assert shown["rpc_url"] == {"value": "http://b", "origin": "FORESTER_RPC_URL"}
    assert shown["max_concurrent_sends"] == {"value": 12, "origin": "default"}
    assert shown["api_server_port"] == {"value": None, "origin": "default"}


def test_variables_of_dotenv__that_mean_nothing_or_set_the_log__are_seen_too(
    tmp_path: Path,
) -> None:
    (tmp_path / ".env").write_text("MAX_RETRIES=3\nRETRY_DELAY=5\nFORESTER_RPC_ULR=x\nFORESTER_LOG=loud\n")
    code, text = run("config", "show", FORESTER_LOG="info", RETRY_DELAY="false")
    assert code == 0, text
    assert "warning: MAX_RETRIES changes nothing" in text
    assert "warning: FORESTER_RPC_ULR is not a setting of the forester; did you mean FORESTER_RPC_URL?" in text
    assert "RETRY_DELAY changes nothing" not in text
    assert run("config", "show")[0] == 78


@pytest.mark.parametrize("command", ["start", "status", "health", "dashboard", "check"])
def test_unknown_variable__of_any_command__is_reported_once(command: str) -> None:
    settings = {"PAYER": PAYER_JSON, "RPC_URL": "http://127.0.0.1:1", "INDEXER_URL": "http://127.0.0.1:1"}
    settings |= {"PROVER_URL": "http://127.0.0.1:1", "DERIVATION_PUBKEY": str(PAYER.pubkey())}
    words = {"start": ["--dry-run"], "dashboard": ["--port", "70000"]}
    _, text = run(command, *words.get(command, []), FORESTER_RPC_ULR="x", **settings)
    assert text.count("FORESTER_RPC_ULR is not a setting of the forester; did you mean FORESTER_RPC_URL?") == 1


def test_config_show__secrets_everywhere__shows_none_of_them() -> None:
    code, text = run(
        *("config", "show"),
        PAYER=PAYER_JSON,
        PROVER_API_KEY="hush-hush-hush",
        PAGERDUTY_ROUTING_KEY="R0UT1NGKEY",
        RPC_URL="https://name:passw0rd@rpc.example/?api-key=s3cr3tkey",
    )
    assert code == 0, text
    assert f"key of {PAYER.pubkey()}" in text
    assert not [word for word in ("hush", "R0UT1NG", "passw0rd", "s3cr3tkey", PAYER_JSON, str(PAYER)) if word in text]
    assert "https://***@rpc.example/?api-key=***" in text


@pytest.mark.parametrize("words", [("--enable-priority-fees",), ("--enable-priority-fees", "true")])
def test_flag_of_a_setting__bare_or_as_a_word__is_accepted(words: tuple[str, ...]) -> None:
    code, text = run("config", "show", "--output", "json", *words)
    assert code == 0, text
    assert json.loads(text)["enable_priority_fees"]["value"] is True
    _, text = run("config", "show", "--output", "json", "--enable-priority-fees", "false")
    assert json.loads(text)["enable_priority_fees"]["value"] is False


def test_invalid_settings__of_flags_and_environment__are_reported_together_and_end_with_2_or_78() -> None:
    code, text = run("config", "show", "--cu-limit", "x", "--max-batches-per-tree", "21")
    assert code == 2
    assert "--cu-limit: " in text
    assert "--max-batches-per-tree: " in text
    code, text = run("config", "show", RPC_URL="ftp://h", PAYER="[1,2]")
    assert code == 78
    assert "RPC_URL: expected a URL that begins with http:// or https://" in text
    assert "PAYER: 2 bytes instead of 64" in text
    code, text = run("config", "show", "--priority-fee-microlamports", "5", "--enable-priority-fees")
    assert code in (2, 78)
    assert "exclude each other" in text


def test_status__without_rpc_url__names_option_and_variable() -> None:
    code, text = run("status")
    assert code == 78
    assert text == "error: missing rpc_url: pass --rpc-url or set RPC_URL\n"


def test_health__nothing_configured__is_failed_checks_and_no_crash() -> None:
    code, text = run("health", "--output", "json")
    assert code == 1
    answer = json.loads(text)
    assert answer["success"] is False
    assert [item["name"] for item in answer["checks"]] == ["balance", "registration"]
    assert "pass --rpc-url or set RPC_URL" in answer["checks"][0]["message"]
    assert answer["balance"] == answer["registration"] == {"healthy": False, "code": "configuration"}
    assert text.count("\n") == 1  # a log collector takes a line
    assert run("health", "--exit-code-by-cause")[0] == 78


def test_check__nothing_configured__fails_once_and_skips_what_depends_on_settings() -> None:
    code, text = run("check", "--output", "json")
    assert code == 1
    found = {item["name"]: item["code"] for item in json.loads(text)["checks"]}
    assert found.pop("settings") == "configuration"
    assert found.pop("journal") is None
    assert found.pop("websocket") is None
    assert found.pop("compressible") is None
    assert found.pop("host") in (None, "warning")
    assert set(found.values()) == {"skipped"}
    text = run("check")[1]
    assert text.count("FAIL: ") == 1
    assert "SKIPPED: not checked, because settings failed\n" in text
    assert text.count("missing rpc_url: pass --rpc-url or set RPC_URL") == 1
    assert text.count("missing prover_url: pass --prover-url or set PROVER_URL") == 1
    assert "1 of 14 checks failed, 9 skipped" in text


def test_health__resolution_of_names_that_hangs__still_ends_within_its_limit(tmp_path: Path) -> None:
    program = (
        "import socket, time\n"
        "socket.getaddrinfo = lambda *_, **__: time.sleep(300)\n"
        "from forester.cli.main import cli\n"
        "cli(['health', '--check-balance', '--timeout', '0.5', '--rpc-url', 'http://rpc.example', "
        f"'--payer', '{PAYER_JSON}'])"
    )
    started = time.monotonic()
    answer = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False
    )
    assert answer.returncode == 1, answer.stderr
    assert "no result within 0.5 s" in answer.stdout
    assert time.monotonic() - started < 150


def test_exit_codes__of_errors_and_help__are_those_of_the_contract() -> None:
    contract = json.loads((Path(__file__).resolve().parents[3] / "contracts" / "exit-codes.json").read_text())
    waiting: list[type[ForesterError]] = [ForesterError]
    while waiting:
        kind = waiting.pop()
        waiting.extend(kind.__subclasses__())
        assert str(kind.exit_code) in contract, kind
    _, text = run("--help")
    reported = {
        word.strip(" .") for word in " ".join(text.split("Exit codes:")[1].split()).replace("and", ",").split(",")
    }
    assert set(contract) <= {word.split()[0] for word in reported if word}


def test_exit_codes__in_the_help_of_start__are_those_of_the_contract() -> None:
    contract = json.loads((Path(__file__).resolve().parents[3] / "contracts" / "exit-codes.json").read_text())
    _, text = run("start", "--help")
    reported = re.findall(r"(?:^|, | and )(\d+)\b", " ".join(text.split("Exit codes:")[1].split()))
    assert reported == [code for code in contract if code not in ("3", "4", "70")]


@pytest.mark.parametrize("amount", ["nan", "-1", "inf", "much"])
def test_min_balance__that_would_check_nothing__is_a_usage_error(amount: str) -> None:
    code, text = run("health", "--check-balance", "--min-balance", amount)
    assert code == 2, text


def test_process_start__of_a_process_that_ran_another_program_before__is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    since_boot = time.clock_gettime
    monkeypatch.setattr(time, "clock_gettime", lambda clock: since_boot(clock) + 60)
    called = time.monotonic()
    assert command.process_start_s() >= called, "the time of the other program does not count"


def test_status__push_that_fails__is_reported_and_the_watch_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    pushes = 0

    async def read(*_: object, **__: object) -> tuple[None, None]:
        return None, None

    async def push(*_: object) -> None:
        nonlocal pushes
        pushes += 1
        if pushes == 2:
            signal.raise_signal(signal.SIGINT)
        raise EndpointUnreachable("the push gateway does not answer")

    monkeypatch.setattr(status, "_read", read)
    monkeypatch.setattr(status, "_push", push)
    monkeypatch.setattr(status, "table_of", lambda _: ["a table"])
    words = ("status", "--table", "--rpc-url", "http://127.0.0.1:1", "--push-gateway-url", "http://127.0.0.1:1")
    code, text = run(*words, "--watch", "1")
    assert code == 130
    assert text.count("a table\n") == 2
    assert text.count("the push gateway does not answer\n") == 1
    code, text = run(*words)
    assert (code, text) == (69, "a table\nerror: the push gateway does not answer\n")


def test_status__interrupt_in_a_destructor__ends_after_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read(*_: object, **__: object) -> tuple[None, None]:
        with contextlib.suppress(KeyboardInterrupt):  # as Python does around destructors
            signal.raise_signal(signal.SIGINT)
        return None, None

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(status, "_read", read)
    monkeypatch.setattr(status, "table_of", lambda _: ["a table"])
    code, text = run("status", "--table", "--watch", "1", "--rpc-url", "http://127.0.0.1:1")
    assert (code, text) == (130, "a table\n")
    assert signal.getsignal(signal.SIGINT) is before
