"""Ordinary mistakes of a configuration: what each command makes of them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from command_line import run

from forester.checks.result import run_check


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
    for command, checks in (("health", 3 if wrong is None else 2), ("check", 13)):
        code, text = run(command, "--output", "json", "--timeout", "5", **environment)
        assert code == 1
        assert len(json.loads(text)["checks"]) == checks


def test_check__a_check_that_meets_a_surprise__leaves_the_others_their_results(monkeypatch: pytest.MonkeyPatch) -> None:
    async def surprise(*_: object) -> str:
        raise ValueError("no such thing as http://u:passw0rd@h")

    monkeypatch.setattr("forester.cli.network_checks.check_indexer", surprise)
    code, text = run("check", "--output", "json", RPC_URL="http://127.0.0.1:1", INDEXER_URL="http://127.0.0.1:1")
    assert code == 1
    results = {item["name"]: item for item in json.loads(text)["checks"]}
    assert len(results) == 13
    reported = "unexpected ValueError: no such thing as http://***@h; forester -v logs its trace"
    assert (results["indexer"]["success"], results["indexer"]["message"]) == (False, reported)


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
