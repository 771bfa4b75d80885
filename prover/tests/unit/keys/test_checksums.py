"""Lists of what key files must be: their forms, and that nothing else passes for one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prover.errors import KeyUnavailable, SettingsInvalid
from prover.keys.catalogue.circuits import PUBLISHED_CIRCUITS
from prover.keys.catalogue.published_digests import (
    ExpectedFile,
    parse_checksum_list,
    published_keys,
    read_checksum_list,
    read_pinned_manifest,
)
from prover.keys.verify import accepted_digests
from shared.requests.circuit_id import CircuitId

DIGEST = "0123456789abcdef" * 4
ENTRY = {"name": "a.key", "size": 5, "sha256": DIGEST}


@pytest.mark.parametrize(
    "line", [f"{DIGEST}  a.key", f"{DIGEST.upper()} *a.key", f"  {DIGEST}\ta.key  ", f"{DIGEST} a.key\r"]
)
def test_list__in_the_forms_of_sha256sum__is_read(line: str) -> None:
    assert parse_checksum_list(f"\n{line}\n\n") == {"a.key": ExpectedFile("a.key", DIGEST)}


def test_list__with_a_bad_line__names_it() -> None:
    with pytest.raises(ValueError, match="line 2 is not"):
        parse_checksum_list(f"{DIGEST}  a.key\n{DIGEST} a b\n")


@given(st.text())
def test_list__of_any_text__is_read_or_refused(text: str) -> None:
    try:
        files = parse_checksum_list(text)
    except ValueError:
        return
    assert all(name and "/" not in name and "\\" not in name for name in files)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["keys", "name", "size", "sha256"]), inner),
    )
)
def test_manifest__of_any_json__is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, value: object) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_text(json.dumps(value))
    try:
        files = read_pinned_manifest(path)
    except SettingsInvalid:
        return
    assert all(file.name == name and file.size is not None for name, file in files.items())


@pytest.mark.parametrize("form", [{"keys": [ENTRY], "note": "x"}, [ENTRY], {"keys": [ENTRY | {"circuit": "x"}]}])
def test_manifest__with_or_without_more_members__is_read(tmp_path: Path, form: object) -> None:
    (tmp_path / "m.json").write_text(json.dumps(form))
    assert read_pinned_manifest(tmp_path / "m.json") == {"a.key": ExpectedFile("a.key", DIGEST, 5)}


@pytest.mark.parametrize(
    "change",
    [
        {"name": "../a"},
        {"name": ""},
        {"size": -1},
        {"size": True},
        {"size": "5"},
        {"sha256": DIGEST[1:]},
        {"sha256": "G" * 64},
    ],
)
def test_manifest__with_a_bad_member__names_the_entry(tmp_path: Path, change: dict[str, object]) -> None:
    (tmp_path / "m.json").write_text(json.dumps({"keys": [ENTRY, ENTRY | change]}))
    with pytest.raises(SettingsInvalid, match=r"m\.json .*keys\[1\] lacks name, size in bytes and sha256"):
        read_pinned_manifest(tmp_path / "m.json")


def test_lists__that_cannot_be_read__are_named(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 200_000)
    for path in (tmp_path / "deep.json", tmp_path / "absent.json"):
        with pytest.raises(SettingsInvalid, match=path.name):
            read_pinned_manifest(path)
    (tmp_path / "CHECKSUM").write_bytes(b"\xff\xfe")
    for path in (tmp_path / "CHECKSUM", tmp_path):
        with pytest.raises(SettingsInvalid, match="cannot be used as a CHECKSUM list"):
            read_checksum_list(path)


@pytest.mark.parametrize("content", ["", '{"keys": [{}]}', None], ids=["empty", "wrong", "absent"])
def test_digests__of_a_manifest_that_cannot_be_read_any_more__are_those_read_last(
    tmp_path: Path, content: str | None
) -> None:
    manifest = tmp_path / "m.json"
    manifest.write_text(json.dumps({"keys": [ENTRY]}))
    digests = accepted_digests(tmp_path, manifest)
    manifest.unlink()
    if content is not None:
        manifest.write_text(content)
    assert digests(tmp_path / "a.key") == {bytes.fromhex(DIGEST)}
    manifest.write_text(json.dumps({"keys": [ENTRY | {"sha256": "0" * 64}]}))
    assert digests(tmp_path / "a.key") == {bytes(32)}


def test_digests__of_a_manifest_that_was_never_read__accept_no_file(tmp_path: Path) -> None:
    manifest = tmp_path / "m.json"
    digests = accepted_digests(tmp_path, manifest)
    with pytest.raises(KeyUnavailable, match=r"m\.json cannot be read; restore it") as caught:
        digests(tmp_path / "a.key")
    assert str(tmp_path) not in caught.value.detail
    manifest.write_text(json.dumps({"keys": [ENTRY]}))
    assert digests(tmp_path / "a.key") == {bytes.fromhex(DIGEST)}


def test_digests__of_a_checksum_list_that_cannot_be_read__accept_any_file(tmp_path: Path) -> None:
    (tmp_path / "CHECKSUM").write_bytes(b"\xff\xfe")
    assert accepted_digests(tmp_path, None)(tmp_path / "a.key") == frozenset()


def test_published_keys__are_those_of_the_reference_package() -> None:
    """The other record of that package is what its files were checked against when they were fetched."""
    pins = json.loads((Path(__file__).parents[3] / "scripts" / "reference" / "reference_pins.json").read_text())
    files = {
        Path(name).name: (pin["bytes"], pin["sha256"])
        for name, pin in pins["versions"]["0.27.0"]["files"].items()
        if name.endswith(".key")
    }
    assert {file.name: (file.size, file.sha256) for file in published_keys().values()} == files
    assert len(files) == 18


def test_published_keys__are_of_catalogued_circuits_under_earlier_names() -> None:
    for name in published_keys():
        circuit = CircuitId.from_key_file(name)
        assert circuit in PUBLISHED_CIRCUITS
        assert circuit.earlier_key_file == name
