"""Secrets of ``prover start`` in files that variables name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from prover.errors import SettingsInvalid
from prover.variables import unknown_names, with_secret_files


def test_secret_files__variable_unset__is_read_without_its_line_break(tmp_path: Path) -> None:
    key, url = tmp_path / "key", tmp_path / "url"
    key.write_text("k1\n")
    url.write_text("redis://:secret@host:6379/0")
    given = {"PROVER_API_KEY_FILE": str(key), "REDIS_URL_FILE": str(url)}
    found = with_secret_files(given)
    assert (found["PROVER_API_KEY"], found["REDIS_URL"]) == ("k1", "redis://:secret@host:6379/0")
    assert with_secret_files(given | {"PROVER_API_KEY": "own"})["PROVER_API_KEY"] == "own"
    assert list(unknown_names(given, set())) == []


def test_secret_files__empty_file__means_an_empty_variable(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\n")
    assert with_secret_files({"PROVER_API_KEY_FILE": str(empty)})["PROVER_API_KEY"] == ""


def test_secret_files__unreadable_file__is_named_without_its_content(tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff secret")
    absent = "cannot read the file that it names: No such file"  # the path itself may be a misplaced secret
    for path, words in ((tmp_path / "secret", absent), (binary, "is not a text file")):
        with pytest.raises(SettingsInvalid, match=f"PROVER_API_KEY_FILE: .*{words}") as refused:
            with_secret_files({"PROVER_API_KEY_FILE": str(path)})
        assert "secret" not in str(refused.value).replace(str(tmp_path), "")


@pytest.mark.parametrize("name", ["PROVER_API_KEY", "REDIS_URL"])
def test_secret__that_is_not_utf_8__is_refused_by_its_variable_without_its_content(name: str) -> None:
    with pytest.raises(SettingsInvalid, match=f"^{name}: is not UTF-8 text; write it again in UTF-8$"):
        with_secret_files({name: os.fsdecode(b"\xffsecret")})
