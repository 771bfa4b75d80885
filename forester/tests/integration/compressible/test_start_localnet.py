"""``forester start --enable-compressible`` as a process on the published programs."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from compressible_accounts import create_account, set_mint
from localnet_forester import forester_on
from localnet_process import Localnet, running_localnet
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from forester.cli.main import cli
from forester.compressible.rent import RENT_EPOCH_SLOTS

DUE, LATER = 8, 2
DEADLINE_S = 240


@pytest.fixture
def net() -> Iterator[Localnet]:
    with running_localnet("--slot-ms", "30") as localnet:
        yield localnet


async def create_accounts(net: Localnet, folder: Path) -> tuple[list[Pubkey], list[Pubkey]]:
    """Create accounts with rent for two rent epochs and for five."""
    created: dict[int, list[Pubkey]] = {2: [], 5: []}
    async with forester_on(net, folder) as kit:
        mint = set_mint(kit)
        for epochs, number in ((2, DUE), (5, LATER)):
            for _ in range(number):
                key = Keypair()
                work = [create_account(key.pubkey(), mint, kit.pubkey, kit.pubkey, epochs)]
                outcome = await kit.sender.send(work, purpose="test", subject=b"", within_s=120, signers=[key])
                assert outcome.error is None, outcome
                created[epochs].append(key.pubkey())
    return created[2], created[5]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def compressible(port: int) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/compressible", timeout=10) as response:
            answer: dict[str, Any] = json.load(response)
            return answer
    except OSError:
        return {}


def test_enable_compressible__with_accounts_that_are_due__closes_them_and_reports_it(
    net: Localnet, tmp_path: Path
) -> None:
    due, later = asyncio.run(create_accounts(net, tmp_path))
    net.call("localnet_warp", 2 * RENT_EPOCH_SLOTS)
    port = free_port()
    environment = os.environ | net.environment | {"JOURNAL_PATH": str(tmp_path / "own.sqlite")}
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "forester", "start", "--enable-compressible", "--api-server-port", str(port)],
            env=environment,
            stderr=log,
        )
        try:
            ends = time.monotonic() + DEADLINE_S
            while compressible(port).get("ctoken", {}).get("compressed") != DUE or compressible(port)["total_ready"]:
                assert process.poll() is None, (tmp_path / "log").read_text()[-5000:]
                assert time.monotonic() < ends, (tmp_path / "log").read_text()[-20_000:]
                time.sleep(0.5)
            answer = compressible(port)
        finally:
            process.kill()
            process.wait(60)
    assert (answer["enabled"], answer["source"], answer["total_tracked"]) == (True, "tracker", LATER)
    assert answer["ctoken"]["next_ready_slot"] == 5 * RENT_EPOCH_SLOTS
    found = net.call("getMultipleAccounts", [str(key) for key in (*due, *later)], {"encoding": "base64"})["value"]
    assert [item is not None for item in found] == [False] * DUE + [True] * LATER


def test_enable_compressible__without_a_subscription__names_the_option(
    net: Localnet, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in net.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("WS_RPC_URL", raising=False)
    result = CliRunner().invoke(cli, ["start", "--enable-compressible"])
    assert result.exit_code == 78
    assert "--ws-rpc-url" in result.output
