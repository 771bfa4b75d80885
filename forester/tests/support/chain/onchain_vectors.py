"""Recorded transactions, accounts and addresses of the published programs."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from shared_vectors import shared_vectors
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey

WORKSPACE = Path(__file__).resolve().parents[4]
ACCOUNTS = WORKSPACE / "keys-cache" / "reference" / "0.28.3" / "accounts"

FORESTER = Keypair.from_seed(bytes([0x15]) * 32)
"""The forester that signed the recorded transactions."""


def recorded(name: str) -> Any:
    return shared_vectors(f"onchain/{name}")


def recorded_instruction(entry: dict[str, Any]) -> Instruction:
    metas = [
        AccountMeta(Pubkey.from_string(item["pubkey"]), item["signer"], item["writable"]) for item in entry["accounts"]
    ]
    return Instruction(Pubkey.from_string(entry["program"]), bytes.fromhex(entry["data"]), metas)


def published_account(file: str) -> bytes:
    """Return data of a published account fixture; the test is skipped where they were not fetched."""
    path = ACCOUNTS / file
    if not path.is_file():
        pytest.skip("the published accounts are not here: make reference-fixtures")
    return base64.b64decode(json.loads(path.read_text())["account"]["data"][0])
