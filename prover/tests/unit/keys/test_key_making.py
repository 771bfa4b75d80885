"""Keys made from constraint systems: files, records, seeds, and what is left after failures."""

from __future__ import annotations

import errno
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from golden_vectors import SCALAR_MODULUS, load

from prover.errors import Cancelled, MalformedKey, MisnamedKey, SettingsInvalid, UnsupportedKey
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Encoding, Engine
from prover.kernel.setup import SetupSecrets
from prover.keys.files.atomic_file import atomic_file, mapped, require_free
from prover.keys.files.key_description import circuit_of, header_of, is_gnark_08_proving_key
from prover.keys.files.provenance import KeyRecord, read_manifest, record_of, record_path, write_manifest
from prover.keys.setup import trusted_setup
from prover.keys.setup.trusted_setup import Outputs, assemble_key, make_key, secrets_from_seed
from shared.requests.circuit_id import CircuitId, CircuitKind

TINY: dict[str, Any] = load("gnark/tiny.json")
KEY = bytes.fromhex(TINY["key_v0_14_hex"])
CIRCUIT = CircuitId(CircuitKind.COMBINED, 1, (TINY["header"][0], TINY["header"][2]), tuple(TINY["header"][1::2]))
"""The tiny system is no circuit of ours; this has its header words."""


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine() as engine:
        yield engine


@pytest.fixture(scope="module")
def parts(engine: Engine) -> list[bytes]:
    with engine.load_key(KEY) as key:
        cuts = (key.info.proving_key_offset, key.info.verifying_key_offset, key.info.constraint_system_offset, None)
    return [KEY[start:end] for start, end in itertools.pairwise(cuts)]


@pytest.fixture
def golden_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = SetupSecrets(**{name: int(value, 16) for name, value in TINY["toxic_waste"].items()})
    monkeypatch.setattr(trusted_setup, "secrets_from_seed", lambda _: secrets)


def test_make_key__known_secrets__writes_the_golden_key_its_text_and_its_record(
    engine: Engine, parts: list[bytes], golden_secrets: None, tmp_path: Path
) -> None:
    outputs = Outputs(tmp_path / "INSECURE.key", tmp_path / "a.vkey")
    record = make_key(engine, CIRCUIT, parts[2], outputs, seed="any")
    assert outputs.key.read_bytes() == KEY
    with engine.load_key(KEY) as key:
        raw = key.verifying_key.write(Encoding.RAW)
    text = (tmp_path / "a.vkey").read_text()
    assert (text[0], text[-1]) == ("[", "]")
    assert bytes(map(int, text[1:-1].split(" "))) == raw
    assert record == KeyRecord("INSECURE.key", len(KEY), record.sha256, CIRCUIT.name, development=True, seeded=True)
    assert record_of(outputs.key) == record
    assert sorted(path.name for path in tmp_path.iterdir()) == ["INSECURE.key", "INSECURE.key.json", "a.vkey"]


def test_make_key__seeded_under_a_plain_name__is_refused(engine: Engine, parts: list[bytes], tmp_path: Path) -> None:
    with pytest.raises(SettingsInvalid, match="INSECURE"):
        make_key(engine, CIRCUIT, parts[2], Outputs(tmp_path / "a.key"), seed="any")
    assert not list(tmp_path.iterdir())


def test_make_key__over_existing_files__needs_force(engine: Engine, parts: list[bytes], tmp_path: Path) -> None:
    old = tmp_path / "a.key"
    old.write_bytes(b"old")
    with pytest.raises(SettingsInvalid, match="exists already; pass --force"):
        make_key(engine, CIRCUIT, parts[2], Outputs(old))
    assert old.read_bytes() == b"old"
    record = make_key(engine, CIRCUIT, parts[2], Outputs(old, force=True))
    assert old.stat().st_size == record.size == len(KEY)
    assert not record.seeded


def test_make_key__next_to_a_foreign_file_of_the_records_name__needs_force(
    engine: Engine, parts: list[bytes], tmp_path: Path
) -> None:
    foreign = tmp_path / "a.key.json"
    foreign.write_text('{"mine": 1}')
    with pytest.raises(SettingsInvalid, match="exists already"):
        make_key(engine, CIRCUIT, parts[2], Outputs(tmp_path / "a.key"))
    assert [path.name for path in tmp_path.iterdir()] == [foreign.name]


def test_make_key__cancelled__leaves_the_old_file_alone(engine: Engine, parts: list[bytes], tmp_path: Path) -> None:
    old = tmp_path / "a.key"
    old.write_bytes(b"old")
    flag = CancelFlag()
    flag.raise_flag()
    with pytest.raises(Cancelled):
        make_key(engine, CIRCUIT, parts[2], Outputs(old, tmp_path / "a.vkey", force=True), cancel=flag)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a.key", b"old")]


def test_make_key__full_disk__reports_it_and_leaves_nothing(
    engine: Engine, parts: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(SettingsInvalid, match=r"cannot write .*a\.key: No space left on device; free some space"):
        make_key(engine, CIRCUIT, parts[2], Outputs(tmp_path / "a.key"))
    assert not list(tmp_path.iterdir())


def test_make_key__one_file_for_key_and_verifying_key__is_refused(
    engine: Engine, parts: list[bytes], tmp_path: Path
) -> None:
    for name in ("a.key", "a.key.json"):
        with pytest.raises(SettingsInvalid, match="a separate file"):
            make_key(engine, CIRCUIT, parts[2], Outputs(tmp_path / "a.key", tmp_path / name))


def test_secrets_from_seed__are_repeatable_distinct_and_in_range() -> None:
    first, again, other = (secrets_from_seed(seed) for seed in ("a", "a", "b"))
    assert first == again
    values = [*vars(first).values(), *vars(other).values()]
    assert len(set(values)) == 10
    assert all(0 < value < SCALAR_MODULUS for value in values)


def test_assemble_key__parts_of_another_circuit__are_refused(
    engine: Engine, parts: list[bytes], tmp_path: Path
) -> None:
    with pytest.raises(MisnamedKey, match="another circuit"):
        assemble_key(engine, CIRCUIT, parts, Outputs(tmp_path / "a.key"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("part", [0, 1, 2])
def test_assemble_key__a_part_cut_short_or_extended__is_refused(
    engine: Engine, parts: list[bytes], tmp_path: Path, part: int
) -> None:
    for changed in (parts[part][:-1], parts[part] + b"\0", b""):
        with pytest.raises((MalformedKey, UnsupportedKey, MisnamedKey)):
            assemble_key(engine, CIRCUIT, [*parts[:part], changed, *parts[part + 1 :]], Outputs(tmp_path / "a.key"))
    assert not list(tmp_path.iterdir())


def test_assemble_key__bytes_moved_between_parts__is_refused(
    engine: Engine, parts: list[bytes], tmp_path: Path
) -> None:
    moved = [parts[0][:-1], parts[0][-1:] + parts[1], parts[2]]
    with pytest.raises(MalformedKey, match="too many or too few"):
        assemble_key(engine, CIRCUIT, moved, Outputs(tmp_path / "a.key"))


def test_is_earlier_proving_key__golden_keys__are_distinguished(parts: list[bytes]) -> None:
    earlier = bytes.fromhex(TINY["key_v0_8_hex"])[4 * len(TINY["header"]) :]
    assert is_gnark_08_proving_key(earlier)
    assert not is_gnark_08_proving_key(parts[0])
    assert not is_gnark_08_proving_key(b"")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("v2_inclusion_32_3", (32, 3, 0, 0)),
        ("v1_non-inclusion_26_2", (0, 0, 26, 2)),
        ("v2_combined_32_40_1_4", (32, 1, 40, 4)),
        ("batch_address-append_40_250", (40, 250)),
    ],
)
def test_header_of__each_family__follows_the_wrapper_table(name: str, words: tuple[int, ...]) -> None:
    circuit = CircuitId.from_key_file(f"{name}.key")
    assert circuit is not None
    assert header_of(circuit) == words


def test_circuit_of__golden_tiny_key__is_none_of_ours(engine: Engine) -> None:
    with engine.load_key(KEY) as key:
        assert circuit_of(key.info) is None


def test_atomic_file__block_fails__leaves_nothing(tmp_path: Path) -> None:
    def interrupted() -> None:
        with atomic_file(tmp_path / "a") as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not list(tmp_path.iterdir())


def test_atomic_file__target_came_meanwhile__is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with pytest.raises(SettingsInvalid, match="exists already"), atomic_file(path):
        path.write_bytes(b"theirs")
    assert [(found.name, found.read_bytes()) for found in tmp_path.iterdir()] == [("a", b"theirs")]


@pytest.mark.parametrize("size", [5000, 2**21, 2**26, 2**26 + 5000])
def test_atomic_file__mapped__holds_what_was_written(tmp_path: Path, size: int) -> None:
    with atomic_file(tmp_path / "a") as file, mapped(file, size) as data:
        data[size - 10 :] = b"0123456789"
    assert (tmp_path / "a").read_bytes() == bytes(size - 10) + b"0123456789"


@pytest.mark.parametrize("force", [False, True])
def test_require_free__folders_and_devices__are_refused(tmp_path: Path, force: bool) -> None:
    for path in (tmp_path, Path("/dev/null"), tmp_path / "absent" / "a", tmp_path / ("x" * 300)):
        with pytest.raises(SettingsInvalid, match="cannot write"):
            require_free(path, force=force)


def test_record_of__changed_file__is_none(tmp_path: Path) -> None:
    key = tmp_path / "a.key"
    key.write_bytes(b"key")
    digest = "2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683"
    record = KeyRecord("a.key", 3, digest, "v2_inclusion_32_1", development=True, seeded=False)
    write_manifest(tmp_path, {record.name: record})
    assert record_of(key) == record
    key.write_bytes(b"kez")
    assert record_of(key) is None
    record_path(key).write_text("[]")
    assert record_of(key) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"keys": 1}', '{"keys": [{"name": "a"}]}'])
def test_read_manifest__of_something_else__names_the_file(tmp_path: Path, text: str) -> None:
    assert read_manifest(tmp_path) == {}
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(SettingsInvalid, match=r"manifest\.json is not a manifest"):
        read_manifest(tmp_path)
    assert read_manifest(tmp_path, lenient=True) == {}


def test_write_manifest__marks_the_keys_as_development(tmp_path: Path) -> None:
    write_manifest(tmp_path, {})
    assert json.loads((tmp_path / "manifest.json").read_text())["development"] is True
