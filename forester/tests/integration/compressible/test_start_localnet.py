"""``forester start --enable-compressible`` as a process on the published programs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from compressible_accounts import create_account, set_mint
from compressible_program import NAME, PROGRAM, account_key, create_placeholders, set_account, set_program
from local_processes import free_port
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


async def create_program_accounts(net: Localnet, folder: Path) -> tuple[list[Pubkey], list[Pubkey]]:
    """Create accounts of the test program with rent for two rent epochs and for five."""
    keys = [account_key(number) for number in range(DUE + LATER)]
    set_program(net)
    async with forester_on(net, folder) as kit:
        for begin in range(0, len(keys), 3):
            work = [await asyncio.to_thread(create_placeholders, net, kit.pubkey, keys[begin : begin + 3])]
            outcome = await kit.sender.send(work, purpose="test", subject=b"", within_s=120)
            assert outcome.error is None, outcome
    for number, key in enumerate(keys):
        set_account(net, key, 2 if number < DUE else 5, 0)
    return keys[:DUE], keys[DUE:]


def answer_of(port: int, path: str) -> dict[str, Any]:
    """Return an answer of the API; nothing while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10) as response:
            answer: dict[str, Any] = json.load(response)
            return answer
    except OSError:
        return {}


@contextlib.contextmanager
def started(net: Localnet, folder: Path, *options: str) -> Iterator[tuple[int, Callable[[Callable[[], object]], None]]]:
    """A forester as a process: the port of its API, and how to wait while it runs."""
    port = free_port()
    environment = os.environ | net.environment | {"JOURNAL_PATH": str(folder / "own.sqlite")}
    command = [sys.executable, "-m", "forester", "start", "--api-server-port", str(port), *options]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stderr=log)

        def wait_until(true: Callable[[], object]) -> None:
            ends = time.monotonic() + DEADLINE_S
            while not true():
                assert process.poll() is None, (folder / "log").read_text()[-5000:]
                assert time.monotonic() < ends, (folder / "log").read_text()[-20_000:]
                time.sleep(0.5)

        try:
            yield port, wait_until
        finally:
            process.kill()
            process.wait(60)


def existing(net: Localnet, accounts: list[Pubkey]) -> list[bool]:
    found = net.call("getMultipleAccounts", [str(key) for key in accounts], {"encoding": "base64"})["value"]
    return [item is not None for item in found]


def test_enable_compressible__with_accounts_that_are_due__closes_them_and_reports_it(
    net: Localnet, tmp_path: Path
) -> None:
    due, later = asyncio.run(create_accounts(net, tmp_path))
    net.call("localnet_warp", 2 * RENT_EPOCH_SLOTS)
    with started(net, tmp_path, "--enable-compressible") as (port, wait_until):
        wait_until(
            lambda: (
                (found := answer_of(port, "compressible")).get("ctoken", {}).get("compressed") == DUE
                and not found["total_ready"]
            )
        )
        answer = answer_of(port, "compressible")
        wait_until(lambda: answer_of(port, "status"))
        summary = answer_of(port, "status")["compressible"]
    assert (answer["enabled"], answer["source"], answer["total_tracked"]) == (True, "tracker", LATER)
    assert answer["ctoken"]["next_ready_slot"] == 5 * RENT_EPOCH_SLOTS
    assert existing(net, [*due, *later]) == [False] * DUE + [True] * LATER
    assert (summary["tracked"], summary["ready"], summary["compressed"]) == (LATER, 0, DUE)
    assert summary["lamports_received"] == DUE * 11_000
    assert summary["lamports_recovered"] > DUE * 2_000_000
    assert summary["lamports_claimed"] == 0


def test_light_pda_program__with_accounts_that_are_due__closes_them_and_reports_it(
    net: Localnet, tmp_path: Path
) -> None:
    due, later = asyncio.run(create_program_accounts(net, tmp_path))
    tokens, paid = asyncio.run(create_accounts(net, tmp_path))
    net.call("localnet_warp", 2 * RENT_EPOCH_SLOTS)
    # Rent is claimed of accounts that are not due: two rent epochs of 400 lamports each.
    options = ("--light-pda-program", NAME, "--claim-min-lamports", "1000")
    with started(net, tmp_path, *options) as (port, wait_until):
        wait_until(
            lambda: (
                (found := answer_of(port, "compressible")).get("pda", {}).get("compressed") == DUE
                and not found["total_ready"]
            )
        )
        answer = answer_of(port, "compressible")
        wait_until(lambda: answer_of(port, "status").get("compressible", {}).get("lamports_claimed"))
        summary = answer_of(port, "status")["compressible"]
    assert (answer["pda_count"], answer["ctoken_count"], answer["ata_count"], answer["mint_count"]) == (
        LATER,
        LATER,
        0,
        0,
    )
    [program] = answer["pda_programs"]
    assert (program["program_id"], program["tracked"], program["waiting"]) == (str(PROGRAM), LATER, LATER)
    assert existing(net, [*due, *later]) == [False] * DUE + [True] * LATER
    assert existing(net, [*tokens, *paid]) == [False] * DUE + [True] * LATER
    assert summary["lamports_claimed"] == LATER * 2 * 400


def test_light_pda_program__without_a_subscription__names_the_option(
    net: Localnet, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in net.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("WS_RPC_URL", raising=False)
    result = CliRunner().invoke(cli, ["start", "--light-pda-program", NAME])
    assert result.exit_code == 78
    assert "--light-pda-program" in result.output


def test_enable_compressible__without_a_subscription__names_the_option(
    net: Localnet, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in net.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("WS_RPC_URL", raising=False)
    result = CliRunner().invoke(cli, ["start", "--enable-compressible"])
    assert result.exit_code == 78
    assert "--ws-rpc-url" in result.output


def test_status__compressible__prints_the_numbers_of_each_kind(net: Localnet, tmp_path: Path) -> None:
    asyncio.run(create_accounts(net, tmp_path))
    asyncio.run(create_program_accounts(net, tmp_path))
    net.call("localnet_warp", 2 * RENT_EPOCH_SLOTS)
    # The command reads at confirmed slots, of which the first after the warp follows within a slot.
    while net.call("getSlot", {"commitment": "confirmed"}) < 2 * RENT_EPOCH_SLOTS:
        time.sleep(0.05)
    words = ["status", "--rpc-url", net.url, "--compressible", "--light-pda-program", NAME, "--helius-rpc"]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    lines = [line for line in result.output.splitlines() if line.startswith("Compressible accounts")]
    assert lines == [
        f"Compressible accounts, ctoken: {DUE + LATER} ({DUE} ready)",
        "Compressible accounts, ata: 0 (0 ready)",
        "Compressible accounts, mint: 0 (0 ready)",
        f"Compressible accounts, {PROGRAM}: {DUE + LATER} ({DUE} ready)",
    ]
    told = CliRunner().invoke(cli, [*words, "--output", "json"], catch_exceptions=False).stdout
    found = json.loads(told[told.index("{") :])["compressible"]
    assert found["ctoken"] == {
        "tracked": DUE + LATER,
        "ready": DUE,
        "waiting": LATER,
        "next_ready_slot": 5 * RENT_EPOCH_SLOTS,
    }
