"""The key files of a folder: an entry named like a key that is not a file affects its circuit only."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from prover.errors import KeyMissing
from prover.keys.files.key_folder import find_key, installed_keys, keys_of_folder
from shared.requests.circuit_id import CircuitId

NAME = "v1_inclusion_26_2.key"


def circuit(name: str) -> CircuitId:
    found = CircuitId.from_key_file(name)
    assert found is not None
    return found


GOOD, BROKEN = circuit("v1_inclusion_26_1.key"), circuit(NAME)


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """A folder with one good key."""
    (tmp_path / GOOD.key_file).write_bytes(b"key")
    return tmp_path


ENTRIES: dict[str, tuple[Callable[[Path], object], str]] = {
    "dangling link": (lambda path: path.symlink_to("absent"), "a link to a missing file"),
    "link to itself": (lambda path: path.symlink_to(path), "not readable: Too many levels of symbolic links"),
    "folder": (Path.mkdir, "a folder"),
    "fifo": (os.mkfifo, "not a regular file"),
}


@pytest.mark.parametrize(("make", "fault"), ENTRIES.values(), ids=ENTRIES)
def test_entry__that_is_no_file__is_omitted_and_reported_once(
    keys: Path, make: Callable[[Path], object], fault: str
) -> None:
    make(keys / NAME)
    with capture_logs() as lines:
        for _ in range(3):
            assert list(installed_keys(keys)) == [GOOD]
    (line,) = lines
    assert (line["event"], line["path"], line["detail"]) == ("key_unreadable", str(keys / NAME), f"it is {fault}")
    assert "replace it with the key file" in line["remedy"]
    entry = keys_of_folder(keys).unreadable[BROKEN]
    assert (entry.path, entry.fault) == (keys / NAME, fault)
    with pytest.raises(KeyMissing):
        find_key(keys, BROKEN)


def test_entry__next_to_a_file_of_its_circuit__is_ignored(keys: Path) -> None:
    (keys / BROKEN.key_file).symlink_to("absent")
    (keys / BROKEN.earlier_key_file).write_bytes(b"key")
    with capture_logs() as lines:
        assert installed_keys(keys)[BROKEN].name == BROKEN.earlier_key_file
    assert lines == []
    assert keys_of_folder(keys).unreadable == {}


def test_entry__that_disappears_meanwhile__is_ignored(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "iterdir", lambda folder: iter([folder / GOOD.key_file, folder / NAME]))
    assert list(keys_of_folder(keys).files) == [GOOD]
    assert keys_of_folder(keys).unreadable == {}
