"""Keys that are given in a wrong way, or in a wrong encoding: no output has any part of them."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from command_line import run
from hypothesis import given, settings
from hypothesis import strategies as st
from solders.keypair import Keypair

from forester import redaction
from forester.errors import SettingsInvalid
from forester.observability.health import HealthBoard
from forester.settings import load_settings
from forester.settings.keys import parse_signing_key

PIECE = 6
WAYS = ("PAYER", "--payer", "path of a key file", "PAYER_FILE", "content of PAYER_FILE", "folder of secrets", ".env")
ENCODINGS: tuple[Callable[[bytes], str], ...] = (
    lambda raw: json.dumps(list(raw)),
    lambda raw: json.dumps(list(raw), separators=(",", ":")),
    lambda raw: str(Keypair.from_seed(raw[:32])),
    lambda raw: base64.b64encode(raw).decode(),
    lambda raw: "/" + base64.b64encode(raw).decode(),
    lambda raw: base64.b64encode(raw).decode() + ".json",
    lambda raw: base64.urlsafe_b64encode(raw).decode(),
    lambda raw: raw.hex(),
    lambda raw: "0x" + raw.hex(),
    lambda raw: f"~{raw.hex()}/id.json",
    lambda raw: f"./{base64.b64encode(raw).decode()}",
)


@pytest.fixture(autouse=True, scope="module")
def _secrets_of_these_tests() -> Iterator[None]:
    """Forget the keys of these tests: a process remembers a limited number of secrets."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redaction, "_remembered", {})
        yield


@st.composite
def keys(draw: st.DrawFn) -> str:
    """Return a key that is whole, cut at its end or at its beginning, in any encoding."""
    # Not the bytes that are drawn: keys of zeros have parts in common with all kinds of texts.
    raw = hashlib.sha512(draw(st.binary(max_size=8))).digest()
    text = draw(st.sampled_from(ENCODINGS))(raw)
    cut = draw(st.integers(0, len(text) - 20))
    return draw(st.sampled_from([text, text[: len(text) - cut], text[cut:]]))


def given_in(way: str, text: str, folder: Path) -> tuple[list[str], dict[str, str]]:
    """Return options and variables that give a key in one of the ways."""
    file = folder / "payer"
    file.write_text(text)
    file.chmod(0o600)
    match way:
        case "--payer":
            return ["--payer", text], {}
        case "path of a key file":
            return [], {"PAYER": str(file)}
        case "content of PAYER_FILE":
            return [], {"PAYER_FILE": str(file)}
        case "folder of secrets":
            return [], {"FORESTER_SECRETS_DIR": str(folder)}
        case ".env":
            (folder / ".env").write_text(f"PAYER='{text}'\n")
            return [], {}
    return [], {way: text}


def pieces(text: str) -> set[str]:
    return {text[place : place + PIECE] for place in range(len(text) - PIECE + 1)}


def shown_parts(key: str, output: str) -> set[str]:
    return {piece for piece in pieces(key) if piece in output}


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=60)
@given(key=keys())
def test_settings__key_in_any_encoding__are_read_or_refused_without_any_part_of_it(way: str, key: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        options, environment = given_in(way, key, Path(name))
        output, reported = io.StringIO(), []
        board = HealthBoard()
        board.subscribe(lambda _, problem: reported.append(str(problem)))
        with redirect_stdout(output), redirect_stderr(output):
            try:
                flags = {"payer": options[1]} if options else {}
                loaded = load_settings(flags, environment=environment, dotenv=Path(name) / ".env")
                reported += [repr(loaded), str(loaded.origins)]
            except SettingsInvalid as error:
                board.report("settings", error.detail)
                reported += [str(error), repr(error), error.detail]
        assert not shown_parts(key, output.getvalue() + "".join(reported))


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=4)
@given(key=keys())
def test_commands__key_in_any_encoding__print_no_part_of_it(way: str, key: str) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.chdir(name)
        options, environment = given_in(way, key, Path(name))
        for command in (["config", "show"], ["health"], ["check"], ["start"], ["status", "--full"]):
            code, text = run("-v", *command, *options, **environment)
            assert code in (0, 1, 2, 78), text
            assert not shown_parts(key, text), (command, text)


@pytest.mark.parametrize("content", ["/etc/passwd", "~/id.json", "./key.json", "other.json"])
def test_key_file__that_holds_a_path__is_no_way_to_another_file(content: str, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text(json.dumps(list(bytes(Keypair.from_seed(bytes(32))))))
    (tmp_path / "other.json").chmod(0o600)
    file = tmp_path / "payer"
    file.write_text(content)
    file.chmod(0o600)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert parse_signing_key("other.json").pubkey == Keypair.from_seed(bytes(32)).pubkey()
        for environment in ({"PAYER": str(file)}, {"PAYER_FILE": str(file)}, {"FORESTER_SECRETS_DIR": str(tmp_path)}):
            with pytest.raises(SettingsInvalid, match="expected base58 of 64 bytes or a JSON array") as raised:
                load_settings({}, environment=environment, dotenv=Path("/nonexistent"))
            assert content not in raised.value.detail


@pytest.mark.parametrize("text", ["/x", "~/x", "~nobodys/x", "./x", "../x", "/x" * 3000])
def test_payer__path_of_no_file__is_refused_as_a_path(text: str) -> None:
    with pytest.raises(SettingsInvalid, match=r"^PAYER: (cannot read the file that it names|the path of the key file)"):
        load_settings({}, environment={"PAYER": text}, dotenv=Path("/nonexistent"))


def test_command_line__key_with_spaces_and_without_quotes__is_not_repeated() -> None:
    key = json.dumps(list(bytes(Keypair.from_seed(bytes(range(32))))))
    code, text = run("config", "show", "--payer", *key.split(" "))
    assert code == 2
    assert "unexpected arguments: 63; quote a value that has spaces" in text
    assert not shown_parts(key, text)
