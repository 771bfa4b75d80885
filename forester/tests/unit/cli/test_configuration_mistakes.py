"""Ordinary mistakes of a configuration: what each command makes of them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import run
from solders.keypair import Keypair

from forester.checks.result import run_check
from forester.journal.database import Journal


@pytest.fixture(autouse=True)
def _folder_without_dotenv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"RPC_URL": f"http://127.0.0.1:{port}"} for port in ("99999", "abc")),
        {"RPC_URL": "http://127.0.0.1:1", "PAYER": "~nouser/key.json", "DERIVATION_PUBKEY": "1" * 31},
        None,
    ],
)
def test_mistakes_of_settings__of_any_kind__are_reported_as_such_and_never_crash(wrong: dict[str, str] | None) -> None:
    if wrong is None:
        Path(".env").write_bytes("RPC_URL=http://größe\n".encode("latin-1"))
    environment = wrong or {}
    code, text = run("config", "show", **environment)
    assert (code, text.count("\n")) == (78, 1), text
    assert text.startswith("error: ")
    assert (".env" if wrong is None else "PAYER" if "PAYER" in wrong else "RPC_URL") in text
    assert run("start", **environment)[0] == run("status", "--full", **environment)[0] == 78
    # The push gateway of health cannot be read from a broken .env either.
    for command, checks in (("health", 3 if wrong is None else 2), ("check", 14)):
        code, text = run(command, "--output", "json", "--timeout", "5", **environment)
        assert code == 1
        assert len(json.loads(text)["checks"]) == checks


def test_check__a_check_that_meets_a_surprise__leaves_the_others_their_results(monkeypatch: pytest.MonkeyPatch) -> None:
    async def surprise(*_: object) -> str:
        raise ValueError("no such thing as http://u:passw0rd@h")

    monkeypatch.setattr("forester.cli.checks.network.check_indexer", surprise)
    code, text = run("check", "--output", "json", RPC_URL="http://127.0.0.1:1", INDEXER_URL="http://127.0.0.1:1")
    assert code == 1
    results = {item["name"]: item for item in json.loads(text)["checks"]}
    assert len(results) == 14
    reported = "unexpected ValueError: no such thing as http://***@h; forester -v logs its trace"
    assert (results["indexer"]["success"], results["indexer"]["message"]) == (False, reported)


def _journal_check(path: Path) -> dict[str, object]:
    before = sorted(path.parent.rglob("*"))
    _, text = run("check", "--output", "json", JOURNAL_PATH=str(path))
    assert sorted(path.parent.rglob("*")) == before, "nothing is written"
    found: dict[str, object] = next(item for item in json.loads(text)["checks"] if item["name"] == "journal")
    return found


def _started(path: Path) -> tuple[int, str]:
    key = Keypair.from_seed(bytes([9]) * 32)
    nowhere = dict.fromkeys(("RPC_URL", "INDEXER_URL", "PROVER_URL"), "http://127.0.0.1:1")
    return run("start", PAYER=str(key), DERIVATION_PUBKEY=str(key.pubkey()), JOURNAL_PATH=str(path), **nowhere)


def _write_other_file(path: Path) -> None:
    path.write_text("not a data base at all, but long enough to look like one" * 20)


def _write_newer_journal(path: Path) -> None:
    program = (
        "import os, sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "connection.execute('PRAGMA journal_mode = WAL')\n"
        "connection.execute('PRAGMA user_version = 99')\n"
        "os._exit(0)  # leaves the version in the log"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=True)


@pytest.mark.parametrize(
    ("make", "code", "reason"),
    [
        (_write_other_file, 78, "file is not a database"),
        (_write_newer_journal, 65, "has schema 99"),
        (Path.mkdir, 78, "directory"),
    ],
)
def test_journal__that_cannot_be_used__fails_check_and_ends_start(
    tmp_path: Path, make: Callable[[Path], None], code: int, reason: str
) -> None:
    path = tmp_path / "journal"
    make(path)
    found = _journal_check(path)
    assert not found["success"]
    assert found["code"] == "failed"
    if make is not Path.mkdir:
        assert reason in str(found["message"])
    ended, text = _started(path)
    assert ended == code
    assert reason in text


def test_journal__path_that_no_system_accepts__fails_check_and_ends_start_as_configuration(tmp_path: Path) -> None:
    path = tmp_path / ("j" * 300)
    found = _journal_check(path)
    assert (found["success"], found["code"]) == (False, "failed")
    assert _started(path)[0] == 78


async def test_journal__in_use_or_left_by_a_forester__passes_check_which_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state" / "journal"
    async with await Journal.open(path):
        found = await asyncio.to_thread(_journal_check, path)
        assert (found["success"], found["code"]) == (True, "warning")
    found = await asyncio.to_thread(_journal_check, path)
    assert (found["success"], found["code"]) == (True, None)
    (path.parent / "journal.lock").unlink()
    assert (await asyncio.to_thread(_journal_check, path))["success"]


@pytest.mark.parametrize("stop", [asyncio.CancelledError, KeyboardInterrupt])
async def test_run_check__gets_a_stop_signal__stops(stop: type[BaseException]) -> None:
    async def check() -> str:
        raise stop

    with pytest.raises(stop):
        await run_check("name", check)


def test_settings__working_directory_is_gone__are_loaded_anyway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert run("config", "show", RPC_URL="http://127.0.0.1:1")[0] == 0
