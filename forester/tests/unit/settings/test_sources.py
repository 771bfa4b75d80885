"""Sources of settings, and formats of keys."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from forester.errors import SettingsInvalid
from forester.settings import load_settings, require, sources
from forester.settings.keys import parse_pubkey, parse_signing_key
from forester.settings.model import Settings, is_in_files
from forester.settings.sources import FlagInvalid, flag, unknown_variables, variable

KEY = Keypair.from_seed(bytes(range(32)))
KEY_JSON = json.dumps(list(bytes(KEY)))


def load(environment: dict[str, str] | None = None, dotenv: str = "", tmp: Path | None = None, **flags: object):  # type: ignore[no-untyped-def]
    path = (tmp or Path("/nonexistent")) / "dotenv"
    if dotenv:
        path.write_text(dotenv)
    return load_settings(flags, environment=environment or {}, dotenv=path)


def test_sources__all_at_once__follow_their_order(tmp_path: Path) -> None:
    secret = tmp_path / "key"
    secret.write_text("from-file\n")
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "prover_api_key").write_text("from-folder\n")
    dotenv = "PROVER_API_KEY=from-dotenv\nCU_LIMIT=7\n"
    environment = {"FORESTER_SECRETS_DIR": str(folder)}

    def key(**more: str) -> tuple[str, str]:
        loaded = load(environment | more, dotenv, tmp_path)
        return loaded.settings.prover_api_key.get_secret_value(), loaded.origins["prover_api_key"]

    assert key() == ("from-folder", str(folder / "prover_api_key"))
    assert key(PROVER_API_KEY_FILE=str(secret)) == ("from-file", f"PROVER_API_KEY_FILE ({secret})")
    assert key(PROVER_API_KEY="plain", PROVER_API_KEY_FILE=str(secret)) == ("plain", "PROVER_API_KEY")
    assert key(FORESTER_PROVER_API_KEY="prefixed", PROVER_API_KEY="plain") == ("prefixed", "FORESTER_PROVER_API_KEY")
    loaded = load({}, dotenv, tmp_path)
    assert loaded.settings.prover_api_key.get_secret_value() == "from-dotenv"
    assert (loaded.settings.cu_limit, loaded.origins["cu_limit"]) == (7, "CU_LIMIT in .env")
    assert load({"CU_LIMIT": "9"}, dotenv, tmp_path).settings.cu_limit == 9
    assert load({"CU_LIMIT": "9"}, dotenv, tmp_path, cu_limit="11").settings.cu_limit == 11


def test_dotenv__that_names_files_of_secrets__has_them_read_where_the_environment_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from-file\n")
    (tmp_path / "prover_api_key").write_text("from-folder\n")
    for dotenv, value in (
        (f"PROVER_API_KEY_FILE={tmp_path / 'key'}\n", "from-file"),
        (f"FORESTER_SECRETS_DIR={tmp_path}\n", "from-folder"),
        (f"PROVER_API_KEY=plain\nPROVER_API_KEY_FILE={tmp_path / 'key'}\n", "plain"),
    ):
        assert load({}, dotenv, tmp_path).settings.prover_api_key.get_secret_value() == value
        other = load({"PROVER_API_KEY": "of-the-process"}, dotenv, tmp_path)
        assert other.settings.prover_api_key.get_secret_value() == "of-the-process"


def test_names__of_the_reference__are_kept() -> None:
    assert [variable(name) for name in ("derivation", "send_tx_rate_limit", "tree_ids", "rpc_url")] == [
        *("DERIVATION_PUBKEY", "SEND_TRANSACTION_RATE_LIMIT", "TREE_IDS", "RPC_URL")
    ]
    assert flag("tree_ids") == "--tree-id"
    assert flag("rpc_pool_idle_timeout_secs") == "--rpc-pool-idle-timeout-secs"


def test_secret_file__missing__is_named() -> None:
    with pytest.raises(SettingsInvalid, match="PAYER_FILE: cannot read the file that it names: No such file"):
        load({"PAYER_FILE": "/nowhere/key"})


def test_problems__several__are_reported_together_without_values() -> None:
    with pytest.raises(SettingsInvalid) as raised:
        load({"PAYER": json.dumps([77] * 64), "CU_LIMIT": "much", "INDEXER_URL": "file:///s3cr3t-path"})
    text = raised.value.detail
    assert "PAYER: bytes 32 to 63 are not the public key of bytes 0 to 31" in text
    assert "CU_LIMIT: " in text
    assert "INDEXER_URL: expected a URL" in text
    assert not [word for word in ("77", "much", "s3cr3t") if word in text]


@pytest.mark.parametrize("text", [" http://127.0.0.1:18805 ", "http://127.0.0.1:18805\r\n", "\thttp://127.0.0.1:18805"])
def test_url__white_space_around_it__is_omitted(text: str) -> None:
    loaded = load({"RPC_URL": text, "WS_RPC_URL": text.replace("http", "ws")})
    assert loaded.settings.rpc_url.get_secret_value() == "http://127.0.0.1:18805"
    assert loaded.settings.ws_rpc_url.get_secret_value() == "ws://127.0.0.1:18805"


@pytest.mark.parametrize(
    "rest",
    [
        *("127.0.0.1:99999", "127.0.0.1:abc", "127.0.0.1:-1", "127.0.0.1:+1", "[::1", "[s3cr3t]"),
        *("ho st", "s3cr3t:pass word@host", "h\\ost", "host..net", "h" * 64 + ".net", "ä..net"),
    ],
)
def test_url__that_no_client_could_ask__is_refused_without_showing_it(rest: str) -> None:
    for scheme, variable_ in (("http", "RPC_URL"), ("ws", "WS_RPC_URL")):
        expected = f"expected a URL that begins with {scheme}"
        with pytest.raises(SettingsInvalid, match=f"^{variable_}: {expected}.*; this one's host or port") as raised:
            load({variable_: f"{scheme}://{rest}"})
        assert rest not in raised.value.detail
        assert raised.value.exit_code == 78
    with pytest.raises(FlagInvalid, match="--rpc-url: expected a URL"):
        load(rpc_url=f"http://{rest}")


@pytest.mark.parametrize(
    "url", ["http://u:p@[::1]:8/x?api-key=1", "http://h", "http://h:/", "http://my_host:1", "http://ä.de"]
)
def test_url__unusual_and_right__is_kept(url: str) -> None:
    assert load(rpc_url=url).settings.rpc_url.get_secret_value() == url


def test_dotenv__that_cannot_be_read__is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "dotenv"
    path.write_bytes("CU_LIMIT=7 # größer\n".encode("latin-1"))
    with pytest.raises(SettingsInvalid, match=f"^.env: is not UTF-8 text; correct {path}, or move it away") as raised:
        load(tmp=tmp_path)
    assert raised.value.exit_code == 78

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(sources, "dotenv_values", refuse)
    with pytest.raises(SettingsInvalid, match=r"^.env: cannot be read: Permission denied; correct .*dotenv"):
        load(tmp=tmp_path)


@pytest.mark.parametrize("name", Settings.model_fields)
def test_variable__that_is_not_utf_8__is_refused_by_name_without_its_content(name: str) -> None:
    with pytest.raises(SettingsInvalid, match=f"^{variable(name)}: is not UTF-8 text; write it again in UTF-8$"):
        load({variable(name): os.fsdecode(b"http://\xff")})


def test_flags__that_are_not_utf_8__are_wrong_usage() -> None:
    with pytest.raises(FlagInvalid, match=r"^--rpc-url: is not UTF-8 text; .*; --tree-id: is not UTF-8 text"):
        load(rpc_url=os.fsdecode(b"http://\xff"), tree_ids=("1" * 32, os.fsdecode(b"\xff")))


def test_payer__neither_key_nor_existing_file__is_refused_as_both_without_repeating_it() -> None:
    fault = "expected base58 of 64 bytes or a JSON array of 64 bytes, and no file has this name"
    with pytest.raises(SettingsInvalid, match=f"^PAYER: {fault}$"):
        load({"PAYER": "payer.json"})


def test_payer__file_in_no_known_home__is_named() -> None:
    with pytest.raises(
        SettingsInvalid, match=r"^PAYER: the path of the key file begins with an unknown home; pass an absolute"
    ):
        load({"PAYER": "~nouser/key.json"})


def test_tree_ids__repeated_and_with_commas__are_one_list_and_wrong_ones_are_all_named() -> None:
    keys = [Pubkey(bytes([place]) * 32) for place in (1, 2, 3)]
    loaded = load(tree_ids=(f"{keys[0]},{keys[1]}", str(keys[2]), str(keys[0])))
    assert loaded.settings.tree_ids == tuple(keys)
    assert load({"TREE_IDS": f" {keys[0]} , {keys[1]} "}).settings.tree_ids == tuple(keys[:2])
    with pytest.raises(FlagInvalid, match="--tree-id: not public keys: nope, 0OIl") as raised:
        load(tree_ids=(f"nope,{keys[0]}", "0OIl"))
    assert raised.value.exit_code == 2


@pytest.mark.parametrize("word", ["true", "1", "yes", "TRUE", "on"])
def test_boolean__words_for_true__are_understood(word: str) -> None:
    assert load({"ENABLE_PRIORITY_FEES": word}).settings.enable_priority_fees is True


def test_boolean__false__is_as_if_it_were_not_given() -> None:
    loaded = load({"ENABLE_PRIORITY_FEES": "false", "PRIORITY_FEE_MICROLAMPORTS": "3"})
    assert loaded.settings.priority_fee_microlamports == 3
    with pytest.raises(SettingsInvalid, match="ENABLE_PRIORITY_FEES: expected true or false"):
        load({"ENABLE_PRIORITY_FEES": "maybe"})


def test_require__missing__names_option_and_variable_of_each() -> None:
    with pytest.raises(SettingsInvalid, match="pass --derivation or set DERIVATION_PUBKEY; missing payer"):
        require(Settings(), "derivation", "payer")


def test_signing_key__every_way_of_writing__is_the_same_key(tmp_path: Path) -> None:
    file = tmp_path / "id.json"
    file.write_text(KEY_JSON)
    file.chmod(0o600)
    for text in (KEY_JSON, str(KEY), str(file), f" {KEY_JSON}\n"):
        assert parse_signing_key(text).pubkey == KEY.pubkey()
    file.chmod(0o644)
    with pytest.raises(ValueError, match="chmod 600"):
        parse_signing_key(str(file))


@pytest.mark.parametrize(
    "text", ["", "[]", "[1, 2", '["a"]', "[256]" * 64, "[1.5]", "{}", "0OIl", "abc", "1" * 200, "/no"]
)
def test_signing_key__nonsense__is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"bytes|cannot read") as raised:
        parse_signing_key(text)
    assert len(text) < 4 or text not in str(raised.value)


def test_signing_key__shown_or_pickled__keeps_its_secret() -> None:
    key = parse_signing_key(KEY_JSON)
    assert repr(key) == str(key) == f"SigningKey({KEY.pubkey()})"
    with pytest.raises(TypeError):
        pickle.dumps(key)
    shown = repr(Settings(payer=key, prover_api_key="hidden-key"))  # type: ignore[arg-type]
    assert str(KEY) not in shown
    assert "hidden-key" not in shown


def test_pubkey__base58_or_json__is_the_same_and_leading_zeros_count() -> None:
    for raw in (bytes(32), bytes(31) + b"\x01", bytes(range(32))):
        assert parse_pubkey(str(Pubkey(raw))) == parse_pubkey(json.dumps(list(raw))) == Pubkey(raw)
    for wrong in ("1" * 31, "1" * 33, json.dumps([0] * 31), "l"):
        with pytest.raises(ValueError, match="bytes"):
            parse_pubkey(wrong)


def test_every_setting__its_default_spelled_in_the_environment__is_accepted() -> None:
    defaults = Settings()
    environment = {
        variable(name): str(getattr(defaults, name)).lower()
        for name in Settings.model_fields
        if getattr(defaults, name) not in (None, ())
    }
    assert len(environment) > 25
    assert load(environment).settings == defaults


def test_several_v1_instructions__are_refused_with_the_reason() -> None:
    with pytest.raises(SettingsInvalid, match="LEGACY_IXS_PER_TX: only 1: two nullify instructions exceed"):
        load({"LEGACY_IXS_PER_TX": "2"})


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("RPC_RATE_LIMIT", "many", "a whole number"),
        ("RPC_RATE_LIMIT", "1.5", "a whole number"),
        ("RPC_RATE_LIMIT", "9" * 5000, "a whole number with fewer digits"),
        ("RPC_RATE_LIMIT", "0", "at least 1"),
        ("API_SERVER_PORT", "99999", "at most 65535"),
        ("ROLLOVER_MAX_SOL", "much", "a number"),
        ("ROLLOVER_MAX_SOL", "nan", "a number"),
        ("ROLLOVER_MAX_SOL", "0", "more than 0"),
        ("ROLLOVER_MAX_SOL", "1e10", "at most 1000000000"),
        ("PROCESSOR_MODE", "v3", "v1, v2 or all"),
    ],
)
def test_number_or_choice__that_is_none__is_refused_with_what_is_expected(name: str, text: str, expected: str) -> None:
    with pytest.raises(SettingsInvalid) as refused:
        load({name: text})
    assert refused.value.detail == f"{name}: expected {expected}"


def test_unknown_variable__with_our_prefix__is_reported_with_the_nearest_known_one() -> None:
    environment = {"FORESTER_RPC_ULR": "x", "FORESTER_PAYER_FILE": "x", "FORESTER_CU_LIMIT": "1", "HOME": ""}
    expected = ["FORESTER_RPC_ULR is not a setting of the forester; did you mean FORESTER_RPC_URL?"]
    assert unknown_variables(environment) == expected


def test_unknown_variable__like_no_setting__is_reported_without_a_guess() -> None:
    assert unknown_variables({"FORESTER_FOO": "x"}) == ["FORESTER_FOO is not a setting of the forester"]


def test_variables__of_a_kubernetes_service_named_forester__are_no_settings() -> None:
    environment = {"FORESTER_SERVICE_HOST": "10.0.0.1", "FORESTER_PORT": "tcp://10.0.0.1:8080"}
    assert unknown_variables(environment) == []
    chosen = {"FORESTER_PORT": "8080"}
    assert unknown_variables(chosen) == ["FORESTER_PORT is not a setting of the forester"]


def test_known_variables__of_every_setting__are_never_reported() -> None:
    spellings = {
        spelled for name in Settings.model_fields for spelled in (variable(name), f"FORESTER_{variable(name)}")
    }
    files = {
        f"{spelled}_FILE"
        for name in Settings.model_fields
        if is_in_files(name)
        for spelled in (variable(name), f"FORESTER_{variable(name)}")
    }
    assert "FORESTER_API_URLS_FILE" in files
    assert unknown_variables(dict.fromkeys(spellings | files, "x")) == []
