"""Commands whose RPC node cannot be reached."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import run
from solders.keypair import Keypair

PAYER = Keypair.from_seed(bytes([9]) * 32)
PAYER_JSON = json.dumps(list(bytes(PAYER)))


def test_health__node_unreachable__fails_without_showing_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where no .env file is
    code, text = run(
        *("health", "--timeout", "2", "--check-balance"),
        RPC_URL="http://u:passw0rd@127.0.0.1:1/?api-key=s3cr3t",
        PAYER=PAYER_JSON,
    )
    assert code == 1
    assert "RPC node 127.0.0.1:1" in text or "no result within 2 s" in text
    assert "passw0rd" not in text
    assert "s3cr3t" not in text
