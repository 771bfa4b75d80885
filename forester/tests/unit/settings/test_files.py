"""Settings that lie in files: which are read from there, and which files of keys are safe enough."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from solders.keypair import Keypair

from forester.errors import SettingsInvalid
from forester.settings import Loaded, Settings, key_files, load_settings
from forester.settings.sources import unknown_variables

KEY = Keypair.from_seed(bytes(range(32)))
PUBKEY = Keypair.from_seed(bytes([6]) * 32).pubkey()
WAYS = ("PAYER", "PAYER_FILE", "FORESTER_SECRETS_DIR")


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Warnings about files of keys."""
    lines: list[str] = []

    class Log:
        def warning(self, event: str, **facts: Any) -> None:
            lines.append(f"{event}: {facts['fault']}; {facts['remedy']}")

    monkeypatch.setattr(key_files, "_log", Log())
    key_files._warn.cache_clear()
    yield lines
    key_files._warn.cache_clear()


def load(environment: dict[str, str], dotenv: Path = Path("/nonexistent")) -> Loaded:
    return load_settings({}, environment=environment, dotenv=dotenv)


def payer_of(folder: Path, way: str, mode: int) -> Loaded:
    """Return the settings with a key file of some mode that is named in one of the ways."""
    file = folder / "payer"
    file.write_text(json.dumps(list(bytes(KEY))))
    file.chmod(mode)
    return load({way: str(folder if way == "FORESTER_SECRETS_DIR" else file)})


def payer_shown(loaded: Loaded) -> str:
    return repr(loaded.settings.payer)


def test_folder_of_secrets__empty_file__is_a_setting_that_is_not_set(tmp_path: Path) -> None:
    for name in ("payer", "derivation_pubkey", "fallback_rpc_url", "prover_api_key", "pagerduty_routing_key"):
        (tmp_path / name).write_text("\n")
    loaded = load({"FORESTER_SECRETS_DIR": str(tmp_path)})
    assert loaded.settings == load({}).settings
    assert set(loaded.origins.values()) == {"default"}


def test_derivation__in_a_file_or_in_the_folder__is_read_like_a_secret(tmp_path: Path) -> None:
    file = tmp_path / "derivation_pubkey"
    file.write_text(f"{PUBKEY}\n")
    for environment, origin in (
        ({"DERIVATION_PUBKEY_FILE": str(file)}, f"DERIVATION_PUBKEY_FILE ({file})"),
        ({"FORESTER_DERIVATION_PUBKEY_FILE": str(file)}, f"FORESTER_DERIVATION_PUBKEY_FILE ({file})"),
        ({"FORESTER_SECRETS_DIR": str(tmp_path)}, str(file)),
    ):
        loaded = load(environment)
        assert loaded.settings.derivation == PUBKEY
        assert loaded.origins["derivation"] == origin
        assert not unknown_variables(environment)
    other = load({"FORESTER_SECRETS_DIR": str(tmp_path), "DERIVATION_PUBKEY": str(KEY.pubkey())})
    assert other.settings.derivation == KEY.pubkey()
    file.write_text("nonsense\n")
    with pytest.raises(SettingsInvalid, match=r"DERIVATION_PUBKEY_FILE \(.*\): expected base58 of 32 bytes"):
        load({"DERIVATION_PUBKEY_FILE": str(file)})


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", [0o400, 0o600, 0o440, 0o640])
def test_key_file__that_others_cannot_reach_or_its_group_reads__is_accepted_silently(
    way: str, mode: int, tmp_path: Path, reported: list[str]
) -> None:
    assert payer_shown(payer_of(tmp_path, way, mode)) == f"SigningKey({KEY.pubkey()})"
    assert not reported


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", [0o620, 0o660, 0o602, 0o666])
@pytest.mark.parametrize("read_only", [False, True])
def test_key_file__that_others_may_write__is_refused_with_the_remedy_whatever_names_it(
    way: str, mode: int, read_only: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reported: list[str]
) -> None:
    monkeypatch.setattr(key_files, "_read_only", lambda _: read_only)
    with pytest.raises(SettingsInvalid) as raised:
        payer_of(tmp_path, way, mode)
    file = tmp_path / "payer"
    assert raised.value.detail.startswith(f"{way}: others may write {file}; run: chmod 600 {file}")
    assert "defaultMode: 0400" in raised.value.detail
    assert not reported


@pytest.mark.parametrize("mode", [0o444, 0o644])
def test_key_file__that_everybody_reads_by_its_path__is_refused_with_the_remedies(
    mode: int, tmp_path: Path, reported: list[str]
) -> None:
    with pytest.raises(SettingsInvalid) as raised:
        payer_of(tmp_path, "PAYER", mode)
    file = tmp_path / "payer"
    assert raised.value.detail.startswith(f"PAYER: everybody may read {file}; run: chmod 600 {file} (")
    assert "defaultMode: 0400 with fsGroup, or name the file with PAYER_FILE" in raised.value.detail
    assert not reported


@pytest.mark.parametrize("mode", [0o444, 0o644])
@pytest.mark.parametrize("way", WAYS)
def test_key_file__that_everybody_reads_of_a_mounted_secret__is_accepted_and_reported_once(
    way: str, mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reported: list[str]
) -> None:
    monkeypatch.setattr(key_files, "_read_only", lambda _: way == "PAYER")
    for _ in range(3):
        assert payer_shown(payer_of(tmp_path, way, mode)) == f"SigningKey({KEY.pubkey()})"
    [line] = reported
    assert line.startswith(f"key_file_readable: everybody may read {tmp_path / 'payer'}; chmod 600")


def test_key_file__behind_a_link_as_kubernetes_mounts_it__counts_by_its_own_mode(
    tmp_path: Path, reported: list[str]
) -> None:
    (tmp_path / "data").mkdir()
    folder = tmp_path / "secrets"
    folder.mkdir()
    payer_of(tmp_path / "data", "PAYER", 0o400)
    (folder / "payer").symlink_to(tmp_path / "data" / "payer")
    assert payer_shown(load({"FORESTER_SECRETS_DIR": str(folder)})) == f"SigningKey({KEY.pubkey()})"
    assert not reported


def test_files_of_other_settings__that_everybody_reads__are_accepted_silently(
    tmp_path: Path, reported: list[str]
) -> None:
    (tmp_path / "rpc_url").write_text("http://node")
    (tmp_path / "rpc_url").chmod(0o644)
    assert load({"FORESTER_SECRETS_DIR": str(tmp_path)}).origins["rpc_url"] == str(tmp_path / "rpc_url")
    assert not reported


def test_key_file__that_is_no_text__is_named(tmp_path: Path) -> None:
    file = tmp_path / "payer"
    file.write_bytes(b"\xff\xfe")
    file.chmod(0o600)
    for way, text in (("PAYER_FILE", f"{file} is not a text file"), ("PAYER", f"cannot read {file}: not a text file")):
        with pytest.raises(SettingsInvalid) as raised:
            load({way: str(file)})
        assert raised.value.detail == f"{way}: {text}"


def test_folder_of_secrets__missing_or_a_file__is_an_error_that_names_the_variable(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    dotenv = tmp_path / "dotenv"
    for folder, reason in (("/nonexistent", "No such file or directory"), (str(file), "Not a directory")):
        expected = f"FORESTER_SECRETS_DIR: cannot look into {folder}: {reason}; set it to the folder of the secrets"
        with pytest.raises(SettingsInvalid) as raised:
            load({"FORESTER_SECRETS_DIR": folder})
        assert raised.value.detail.startswith(expected)
        assert raised.value.exit_code == 78
        dotenv.write_text(f"FORESTER_SECRETS_DIR={folder}\n")
        with pytest.raises(SettingsInvalid, match=r"^FORESTER_SECRETS_DIR in \.env: cannot look into"):
            load({}, dotenv)
    assert load({"FORESTER_SECRETS_DIR": ""}).settings == Settings()


def owned(monkeypatch: pytest.MonkeyPatch, *, owner: int, by: int, read_only: bool = False) -> None:
    """Let key files belong to a user while another one runs the forester."""

    def status(descriptor: int) -> SimpleNamespace:
        return SimpleNamespace(st_mode=os.fstat(descriptor).st_mode, st_uid=owner)

    system = SimpleNamespace(fstat=status, geteuid=lambda: by, path=os.path)
    monkeypatch.setattr(key_files, "os", system)
    monkeypatch.setattr(key_files, "_read_only", lambda _: read_only)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", [0o400, 0o440, 0o640])
def test_key_file__of_another_user__is_refused_with_the_remedy(
    way: str, mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reported: list[str]
) -> None:
    owned(monkeypatch, owner=1234, by=10_001)
    file = tmp_path / "payer"
    expected = f"{way}: {file} belongs to the user 1234, who may change it; run: chown 10001 {file}"
    with pytest.raises(SettingsInvalid, match=f"^{re.escape(expected)}$"):
        payer_of(tmp_path, way, mode)
    assert not reported


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("owner", "mode"), [(0, 0o440), (0, 0o640), (0, 0o400), (10_001, 0o400), (10_001, 0o640)])
def test_key_file__of_root_and_a_group_as_kubernetes_mounts_it_or_of_our_user__is_accepted_silently(
    way: str, owner: int, mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reported: list[str]
) -> None:
    owned(monkeypatch, owner=owner, by=10_001)
    assert payer_shown(payer_of(tmp_path, way, mode)) == f"SigningKey({KEY.pubkey()})"
    assert not reported


@pytest.mark.parametrize("way", WAYS)
def test_key_file__of_another_user_on_a_read_only_file_system__is_accepted_and_reported_once(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reported: list[str]
) -> None:
    owned(monkeypatch, owner=1000, by=10_001, read_only=True)
    for _ in range(2):
        assert payer_shown(payer_of(tmp_path, way, 0o440)) == f"SigningKey({KEY.pubkey()})"
    [line] = reported
    assert line.startswith(
        f"key_file_readable: {tmp_path / 'payer'} belongs to the user 1000, not to 10001; chown 10001"
    )


def test_key_file__of_another_user_in_truth__is_refused(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        (tmp_path / "payer").touch()
        os.chown(tmp_path / "payer", 1234, 1234)
        with pytest.raises(SettingsInvalid, match="belongs to the user 1234"):
            payer_of(tmp_path, "PAYER_FILE", 0o400)
