"""Every line of `forester status` in its order, from a network of which slot and configuration are known."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from localnet_forester import EPOCH, forester_on
from localnet_process import Localnet, running_localnet
from status_lines import check_queue_blocks, data_of

from forester.chain.programs.addresses import PROTOCOL_CONFIG
from forester.cli.main import cli

KINDS = ["StateV1"] * 2 + ["AddressV1"] + ["StateV2"] * 5 + ["AddressV2"] * 2
MINUTES_PER_SLOT = 0.4 / 60
FIRST_ACTIVE_SLOT = 500
"""Of epoch 2, by the configuration that is checked below."""


@pytest.fixture
def net() -> Iterator[Localnet]:
    """A network of the test's own: tests move the clock, and not back."""
    with running_localnet() as localnet:
        localnet.call("localnet_seed", {"compress": 12, "spend": 3, "addresses": 2})
        yield localnet


def status(net: Localnet, *words: str) -> list[str]:
    result = CliRunner().invoke(cli, ["status", *words], env=net.environment)
    assert result.exit_code == 0, result.output
    return result.output.splitlines()


async def registered(net: Localnet, folder: Path) -> None:
    async with forester_on(net, folder) as kit:
        await kit.register()


def test_status__before_and_after_a_registration__prints_every_line_in_its_order(net: Localnet, tmp_path: Path) -> None:
    genesis, _, light, registration, active = struct.unpack_from("<5Q", data_of(net, str(PROTOCOL_CONFIG)), 41)
    assert (genesis + EPOCH * active + registration, light) == (FIRST_ACTIVE_SLOT, 10)
    before = status(net)
    assert "  none" in before
    assert "Foresters registered for the active epoch: NO (0)" in before
    asyncio.run(registered(net, tmp_path))
    me, slot = net.keys["forester"].pubkey(), net.call("getSlot", {"commitment": "confirmed"})
    progress, since = (slot - genesis - registration) % active, (slot - genesis) % active
    assert (slot - genesis - registration) // active == EPOCH
    opens = active - since
    registering = (slot - genesis) // active
    printed = status(net, "--full")
    assert printed[:3] == [
        f"Current Solana slot: {slot}",
        f"Current active epoch: {EPOCH}",
        f"Current registration epoch: {registering}",
    ]
    foresters = printed.index("Foresters registered for the active epoch: yes (1)")
    epochs = re.findall(r"Foresters of epoch (\d+):\n((?:  .+\n)+)", "\n".join(printed[3:foresters]) + "\n")
    assert [int(number) for number, _ in epochs] == [0, EPOCH], "every epoch in which somebody registered"
    assert epochs[-1][1] == f"  0: {me} (weight 1)\n"
    lines = iter(printed[foresters:])
    expected = [
        "Foresters registered for the active epoch: yes (1)",
        f"Active epoch progress: {progress} / {active} ({progress / active * 100:.2f} %)",
        f"Hours until next epoch: 0 ({int((active - progress) * MINUTES_PER_SLOT)} minutes)",
        f"Next registration opens in: {opens} slots ({int(opens * MINUTES_PER_SLOT)} minutes)",
        "",
        "Protocol config:",
    ]
    assert [next(lines) for _ in expected] == expected
    config = dict(line.strip().split(": ") for line in iter(lambda: next(lines), ""))
    assert config["slot_length"] == str(light)
    assert {"authority", "genesis_slot", "registration_phase_length", "active_phase_length"} <= config.keys()
    rest = list(lines)
    where = rest.index("Trees:")
    check_queue_blocks(net, "\n".join(rest[:where]) + "\n")
    blocks = [line.split()[0] for line in rest[:where] if re.fullmatch(r"(State|Address)V\d \w+", line)]
    assert sorted(blocks) == sorted(KINDS)
    trees, after = rest[where + 1 : where + 1 + 3 * len(KINDS)], rest[where + 1 + 3 * len(KINDS) :]
    for first, unowned, owners in zip(trees[::3], trees[1::3], trees[2::3], strict=True):
        assert re.fullmatch(r"  (State|Address)V\d \w+: \d+\.\d{4} % full, next index \d+, threshold \d+", first)
        assert unowned == f"    light slots without owner: 0 of {active // light}"
        assert owners == f"    owners from light slot {progress // light} on: " + " ".join(["0"] * 11)
    begins = FIRST_ACTIVE_SLOT + progress // light * light
    left = (begins + light - slot) * 0.4
    assert (
        after[0]
        == f"Current light slot: {progress // light} (slots {begins} to {begins + light - 1}, {left:.1f} s left)"
    )
    assert [line.split()[0] for line in after[1 : 1 + len(KINDS)]] == [line.split()[0] for line in trees[::3]]
    assert all(line.endswith(f" {me}") for line in after[1 : 1 + len(KINDS)])
    assert after[1 + len(KINDS) :] == [f"Compressed tokens: OK: 0 accounts of 0 mints of {me}, balances agree"]


def test_status__nobody_owns_a_light_slot__says_unassigned_with_its_number(net: Localnet) -> None:
    net.call("localnet_warp", FIRST_ACTIVE_SLOT + 200)
    net.call("localnet_advance", 3)
    lines = status(net)
    current = next(line for line in lines if line.startswith("Current light slot: "))
    assert sum(line.endswith("UNASSIGNED (light slot 0)") for line in lines) == len(KINDS), current


def test_status_table__one_line_per_tree__refreshed_until_interrupted(net: Localnet, tmp_path: Path) -> None:
    asyncio.run(registered(net, tmp_path))
    first, headings, *rows = status(net, "--table")
    assert re.fullmatch(r"slot \d+, epoch 2, next epoch in \d minutes", first)
    assert headings.split() == ["KIND", "TREE", "APPEND", "NULLIFY", "PENDING", "BATCHES", "FULL", "FORESTER"]
    assert sorted(row.split()[0] for row in rows) == sorted(KINDS)
    me = str(net.keys["forester"].pubkey())
    assert {row.split()[-1] for row in rows} == {me}
    pending = [row.split()[2:5] for row in rows if row.startswith("StateV2 ") and row.split()[4] != "0"]
    assert pending, rows
    assert all(int(append) + int(nullify) == int(total) for append, nullify, total in pending)
    watching = subprocess.Popen(
        [sys.executable, "-m", "forester", "status", "--table", "--watch", "1"],
        env={**os.environ, **net.environment},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    with watching:
        seen = [watching.stdout.readline() for _ in range(2 * (2 + len(KINDS)))]
        watching.send_signal(signal.SIGINT)
        assert watching.wait(60) == 130
    assert seen[2 + len(KINDS)].startswith("slot ")
