"""Commands whose checks run concurrently keep the limit of reads together."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner
from scripted_node import serving
from start_options import NEEDED, Network, Pauses

from forester.cli.main import cli
from forester.settings import Settings
from forester.settings.sources import variable

ANSWERS = {"getHealth": "ok", "getGenesisHash": "1" * 32, "getAccountInfo": {"context": {"slot": 1}, "value": None}}


async def calls_of(node: Network, *words: str, **environment: str) -> int:
    """Run a command with its node; return the number of its calls."""
    nothing: dict[str, str | None] = {variable(name): None for name in Settings.model_fields}

    def run() -> None:
        answer = CliRunner().invoke(cli, [*words, "--rpc-url", node.url, *NEEDED], env=nothing | environment)
        assert answer.exit_code == 1, answer.output

    with ThreadPoolExecutor(1, "command") as thread:
        await asyncio.get_running_loop().run_in_executor(thread, run)
    return len(node.asked)


@pytest.mark.parametrize("command", ["health", "check"])
@pytest.mark.parametrize("given_as", ["option", "variable", None])
async def test_rate_limit__of_a_command_with_several_checks__is_kept_by_all_together(
    command: str, given_as: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pauses = Pauses.kept(monkeypatch)
    node = Network(answers=ANSWERS)
    async with serving(node):
        words = ("--rpc-rate-limit", "1") if given_as == "option" else ()
        environment = {"RPC_RATE_LIMIT": "1"} if given_as == "variable" else {}
        asked = await calls_of(node, command, *words, **environment)
    assert asked >= (8 if command == "check" else 2)
    if given_as is None:
        assert not pauses.slept
        return
    assert len(pauses.slept) == asked - 1, "only the first call passes at once"
    assert (asked - 1) / 2 < max(pauses.slept) <= asked - 1


@pytest.mark.parametrize("command", ["health", "check"])
def test_rate_limit__of_nothing__fails_the_checks_and_names_it(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--rpc-rate-limit", "0", "--rpc-url", "http://127.0.0.1:1"]
    answer = CliRunner().invoke(cli, [command, *words, *NEEDED])
    assert answer.exit_code == 1
    assert "--rpc-rate-limit: expected at least 1" in answer.output
