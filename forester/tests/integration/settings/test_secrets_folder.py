"""Commands that read all their settings from a folder of secrets."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from solders.keypair import Keypair

from forester.cli.main import cli
from forester.settings import Settings
from forester.settings.sources import variable

KEY = Keypair.from_seed(bytes(range(32)))
PUBKEY = Keypair.from_seed(bytes([6]) * 32).pubkey()


def test_folder_of_secrets__all_that_health_needs__is_enough_for_it_and_shows_the_public_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    for name, value in (("rpc_url", "http://127.0.0.1:1"), ("payer", str(KEY)), ("derivation_pubkey", str(PUBKEY))):
        (secrets / name).write_text(value)
        (secrets / name).chmod(0o600)
    nothing: dict[str, str | None] = {variable(name): None for name in Settings.model_fields}
    environment = nothing | {"FORESTER_SECRETS_DIR": str(secrets)}
    answer = CliRunner().invoke(cli, ["health", "--timeout", "0.5"], env=environment)
    assert answer.exit_code == 1
    assert "missing" not in answer.output
    failed = [line for line in answer.output.splitlines() if " FAIL: " in line]
    assert len(failed) == 2
    assert all("127.0.0.1:1" in line or "no result within" in line for line in failed)
    answer = CliRunner().invoke(cli, ["config", "show"], env=environment)
    assert f"{PUBKEY}  ({secrets / 'derivation_pubkey'})" in answer.output
