"""The wallet commands of the published command line, unmodified, on the network."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from clients import COMMAND_LINE, DEADLINE, Network, installed, node_and_npm, urls
from solders.keypair import Keypair


@dataclass(frozen=True)
class Wallet:
    """The command line with the key of the network's funded user."""

    command: list[str]
    environment: dict[str, str]
    address: str

    def run(self, *arguments: str) -> str:
        """Return what a command prints; it must succeed."""
        done = subprocess.run(
            [*self.command, *arguments], env=self.environment, capture_output=True, text=True, timeout=DEADLINE
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return re.sub(r"\x1b\[[0-9]*m", "", done.stdout)


@pytest.fixture
def wallet(network: Network, tmp_path: Path) -> Wallet:
    modules = installed(COMMAND_LINE, "command-line")
    tools = node_and_npm()
    assert tools is not None
    key = tmp_path / ".config/solana/id.json"
    key.parent.mkdir(parents=True)
    key.write_bytes(Path(network["keyFile"]).read_bytes())
    settings = tmp_path / "config.json"
    names = ("solanaRpcUrl", "indexerUrl", "proverUrl")
    settings.write_text(json.dumps(dict(zip(names, urls(network), strict=True))))
    environment = {**os.environ, "HOME": str(tmp_path), "LIGHT_PROTOCOL_CONFIG": str(settings)}
    command = [tools[0], str(modules / "@lightprotocol/zk-compression-cli/test_bin/run")]
    return Wallet(command, environment, str(Keypair.from_json(key.read_text()).pubkey()))


@pytest.mark.timeout(2 * DEADLINE)
def test_wallet_commands__lamports_and_tokens__change_the_balances(wallet: Wallet) -> None:
    owner, friend = wallet.address, str(Keypair().pubkey())
    to = ("--to", owner)
    wallet.run("compress-sol", *to, "--amount", "5000000")
    wallet.run("decompress-sol", *to, "--amount", "1000000")
    assert "Compressed SOL balance: 4000000" in wallet.run("balance", "--owner", owner)
    created = wallet.run("create-mint", "--mint-decimals", "6")
    found = re.search(r"Mint public key: +(\w+)", created)
    assert found is not None
    mint = ("--mint", found[1])
    wallet.run("mint-to", *mint, *to, "--amount", "1000")
    wallet.run("mint-to", *mint, *to, "--amount", "500")
    wallet.run("merge-token-accounts", *mint)
    wallet.run("transfer", *mint, "--to", friend, "--amount", "10")
    wallet.run("decompress-spl", *mint, *to, "--amount", "100")
    wallet.run("compress-spl", *mint, *to, "--amount", "40")
    balances = {who: wallet.run("token-balance", *mint, "--owner", who) for who in (owner, friend)}
    assert re.search(r"\b1430\b", balances[owner])
    assert re.search(r"\b10\b", balances[friend])
