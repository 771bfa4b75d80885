"""Programs and accounts of the user on the command line, the funded key file, and logs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from command_line import COMMAND, DEADLINE, FREE, call, invoke, start
from solders.keypair import Keypair

from localnet.chain.artefacts import DEFAULT_VERSION, artefacts_folder
from localnet.cli.main import cli


@pytest.fixture(scope="module")
def running() -> Iterator[dict[str, Any]]:
    process = start(*FREE)
    assert process.stdout is not None
    report = json.loads(process.stdout.readline())
    yield report
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=DEADLINE)


def test_up__own_programs_and_accounts__are_on_the_chain(tmp_path: Path) -> None:
    program, account, cloned = Keypair(), Keypair(), Keypair()
    key_file, user_key = tmp_path / "program.json", tmp_path / "user.json"
    key_file.write_text(program.to_json())
    elf = artefacts_folder() / DEFAULT_VERSION / "programs" / "spl_noop.so"
    body = {"lamports": 10**9, "data": ["AQI=", "base64"], "owner": "1" * 32, "executable": False, "rentEpoch": 0}
    one, several = tmp_path / "account.json", tmp_path / "accounts.json"
    one.write_text(json.dumps({"pubkey": str(Keypair().pubkey()), "account": body}))
    several.write_text(json.dumps({"result": [{"pubkey": str(cloned.pubkey()), "account": body}]}))
    options = ["--program", str(key_file), str(elf), "--account", str(account.pubkey()), str(one)]
    process = start(*FREE, *options, "--clone", str(several), "--key-file", str(user_key))
    assert process.stdout is not None
    report = json.loads(process.stdout.readline())
    assert report["keyFile"] == str(user_key)
    user = Keypair.from_json(user_key.read_text())
    assert call(report, "getBalance", str(user.pubkey()))["value"] == 1000 * 10**9
    for key in (account, cloned):
        found = call(report, "getAccountInfo", str(key.pubkey()), {"encoding": "base64"})["value"]
        assert found["data"] == ["AQI=", "base64"]
    parsed = call(report, "getAccountInfo", str(program.pubkey()), {"encoding": "jsonParsed"})["value"]
    assert (parsed["executable"], parsed["data"]["parsed"]["type"]) == (True, "program")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=DEADLINE)
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("option", "content", "message"),
    [
        ("--program", "text", "cannot be loaded"),
        ("--account", "text", "does not contain accounts"),
        ("--clone", "[1]", "does not contain accounts"),
    ],
)
def test_up__file_that_is_wrong__is_named(tmp_path: Path, option: str, content: str, message: str) -> None:
    file = tmp_path / "file"
    file.write_text(content)
    address = [] if option == "--clone" else [str(Keypair().pubkey())]
    process = start(*FREE, option, *address, str(file))
    _, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 1
    assert message in errors
    assert "Traceback" not in errors


def test_up__address_that_is_wrong__is_named(tmp_path: Path) -> None:
    file = tmp_path / "program.so"
    file.write_text("text")
    process = start(*FREE, "--program", "nonsense", str(file))
    assert "nonsense is neither an address nor a key file" in process.communicate(timeout=DEADLINE)[1]


def test_logs__transaction__is_printed_with_its_programs_logs(running: dict[str, Any]) -> None:
    target = str(Keypair().pubkey())
    process = subprocess.Popen(
        # A shell in the background ignores SIGINT, and its children inherit that.
        ["env", "--default-signal=INT", *COMMAND, "logs", target, "--url", running["rpcUrl"]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stderr is not None
    assert process.stdout is not None
    assert "Streaming" in process.stderr.readline()
    signature = invoke("airdrop", target, "--url", running["rpcUrl"])
    lines = [process.stdout.readline().strip() for _ in range(5)]
    process.send_signal(signal.SIGINT)
    assert lines[0].startswith("Transaction executed in slot")
    assert lines[1:4] == [f"Signature: {signature}", "Status: Ok", "Log Messages:"]
    assert lines[4] == f"Program {'1' * 32} invoke [1]"
    assert "Traceback" not in process.communicate(timeout=DEADLINE)[1]


def test_logs__no_network__says_how_to_start_one() -> None:
    done = CliRunner().invoke(cli, ["logs", "--url", "http://127.0.0.1:1"])
    assert done.exit_code == 1
    assert "start one with `localnet up`" in done.output
