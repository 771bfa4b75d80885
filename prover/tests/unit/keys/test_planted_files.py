"""Files that another user plants or changes: nothing is written outside, and no process waits or is killed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from prover.cli.main import cli
from prover.errors import KeyUnavailable, MalformedKey
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine, KeyInfo, Readable
from prover.keys.catalogue.published_digests import ExpectedFile, published_keys
from prover.keys.download.partial_file import PartialFile
from prover.keys.files.atomic_file import atomic_file
from prover.keys.files.private_copy import private_copy
from prover.keys.prepared import fold_checkpoint, preparation_lock
from prover.keys.prepared.verified_source import is_verified
from prover.keys.verify import accepted_digests
from shared.requests.circuit_id import CircuitId

DATA = b"the key"
EXPECTED = ExpectedFile("v2_inclusion_32_1.key", hashlib.sha256(DATA).hexdigest())
SHARED = f".{EXPECTED.name}.{EXPECTED.sha256[:16]}.partial"
SECRET = b"what is outside"
PINNED = "inclusion_32_1.key"
"""A key with a built-in digest."""

Plant = Callable[[Path, Path], object]


def _open_to_all(path: Path) -> int:
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR)
    os.write(descriptor, SECRET)
    os.fchmod(descriptor, 0o666)
    return descriptor


PLANTS: dict[str, Plant] = {
    "link": lambda path, outside: path.symlink_to(outside),
    "link to nothing": lambda path, outside: path.symlink_to(outside.with_name("new")),
    "hard link": lambda path, outside: path.hardlink_to(outside),
    "pipe": lambda path, _: os.mkfifo(path),
    "folder": lambda path, _: path.mkdir(),
    "file that all may write": lambda path, _: os.close(_open_to_all(path)),
}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    path = tmp_path / "outside"
    path.write_bytes(SECRET)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    path.mkdir()
    return path


@pytest.mark.parametrize("plant", PLANTS.values(), ids=PLANTS)
def test_download__with_something_planted_under_its_name__writes_nothing_there(
    folder: Path, outside: Path, plant: Plant
) -> None:
    plant(folder / SHARED, outside)
    partial = PartialFile(folder, EXPECTED)
    try:
        assert partial.acquire()
        assert not partial.is_kept
        partial.resume()
        assert partial.size == 0
        partial.restart()
        partial.write(DATA)
        partial.publish()
    finally:
        partial.close()
    assert outside.read_bytes() == SECRET
    assert not outside.with_name("new").exists()
    target = folder / EXPECTED.name
    assert (target.is_symlink(), target.read_bytes()) == (False, DATA)


def test_download__of_a_file_that_was_begun_by_this_user__continues(folder: Path) -> None:
    (folder / SHARED).write_bytes(DATA[:3])
    partial = PartialFile(folder, EXPECTED)
    try:
        assert partial.acquire()
        partial.resume()
        assert (partial.is_kept, partial.size) == (True, 3)
    finally:
        partial.close()


def test_output__at_a_planted_link__replaces_the_link(folder: Path, outside: Path) -> None:
    path = folder / "output.key"
    path.symlink_to(outside)
    with atomic_file(path, force=True) as file:
        file.write(DATA)
    assert (outside.read_bytes(), path.is_symlink(), path.read_bytes()) == (SECRET, False, DATA)


def test_export_vk__to_a_planted_link__replaces_the_link(source: Path, folder: Path, outside: Path) -> None:
    path = folder / "output.vkey"
    path.symlink_to(outside)
    result = CliRunner().invoke(cli, ["export-vk", "--key", str(source), "--output", str(path)])
    assert result.exit_code == 0, result.output
    assert (outside.read_bytes(), path.is_symlink()) == (SECRET, False)
    piped = CliRunner().invoke(cli, ["export-vk", "--key", str(source), "--output", os.devnull])
    assert piped.exit_code == 0, piped.output


@pytest.mark.parametrize("plant", [PLANTS[name] for name in ("link", "pipe", "folder")])
def test_note_of_a_prepared_key__that_is_planted__is_not_believed(folder: Path, outside: Path, plant: Plant) -> None:
    form = folder / "a.prepared"
    form.write_bytes(b"x")
    plant(folder / f".{form.name}.mark", outside)
    assert not is_verified(form, form.stat(), form.stat())


@pytest.mark.parametrize("name", ["CHECKSUM", "manifest.json", f"{PINNED}.json"])
@pytest.mark.parametrize(
    "plant",
    [
        PLANTS["pipe"],
        PLANTS["folder"],
        lambda path, _: path.symlink_to("/dev/zero"),
        lambda path, _: path.write_text('{"keys":' + "[" * 200_000),
        lambda path, _: path.write_bytes(bytes(2**22 + 1)),
    ],
    ids=["pipe", "folder", "endless device", "nested lists", "long file"],
)
def test_list_of_keys__that_is_planted__leaves_the_other_lists(
    folder: Path, outside: Path, plant: Plant, name: str
) -> None:
    plant(folder / name, outside)
    assert accepted_digests(folder, None)(folder / PINNED) == {bytes.fromhex(published_keys()[PINNED].sha256)}


@pytest.mark.parametrize("plant", [PLANTS[name] for name in ("link", "pipe", "folder")])
def test_remains_of_work__that_are_planted__are_not_waited_for(folder: Path, outside: Path, plant: Plant) -> None:
    plant(folder / f".key.prepared.{'0' * 16}.fold", outside)
    fold_checkpoint.abandoned_checkpoints(folder)
    planted = folder / ".key.prepared.0123.partial"
    plant(planted, outside)
    preparation_lock._remove_abandoned_files(folder / "key.prepared")
    assert outside.read_bytes() == SECRET


def test_copy__of_a_file_that_changes_afterwards__stays_as_it_was(outside: Path) -> None:
    with private_copy(outside) as data:
        outside.write_bytes(b"")
        assert bytes(data) == SECRET


def test_copy__of_a_file_without_these_bytes__is_refused_with_its_name(
    outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(CancelFlag, "check", lambda _: os.truncate(outside, 3))
        reading = private_copy(outside, CancelFlag())
        with pytest.raises(MalformedKey, match="outside: the file was truncated to"), reading:
            pass
    outside.write_bytes(b"")
    with pytest.raises(MalformedKey, match="outside: the file is empty"), private_copy(outside):
        pass
    outside.unlink()
    with pytest.raises(KeyUnavailable, match="outside cannot be read: No such file"), private_copy(outside):
        pass


def test_import_setup__of_parts_that_change_meanwhile__uses_what_it_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [folder / name for name in ("pk", "vk", "r1cs")]
    for file in files:
        file.write_bytes(SECRET)
    read: list[bytes] = []

    def assemble(_: Engine, __: CircuitId, parts: Sequence[Readable], *___: object) -> KeyInfo:
        for file in files:
            with file.open("r+b") as changed:
                changed.write(DATA)
        read.extend(bytes(part) for part in parts)
        raise MalformedKey("read")

    monkeypatch.setattr("prover.cli.commands.import_setup.assemble_key", assemble)
    flags = [word for file in files for word in (f"--{file.name}", str(file))]
    circuit = ["--circuit=inclusion", "--inclusion-tree-height=32", "--inclusion-compressed-accounts=1"]
    CliRunner().invoke(cli, ["import-setup", *circuit, *flags, "--output", str(folder / "a.key")])
    assert read == [SECRET] * 3
