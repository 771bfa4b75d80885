"""Prepared keys on disk: which are used, how they come about, and what is left when that fails. On the tiny key."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import signal
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from prepared_file import all_but_notes
from prepared_folders import (
    DEADLINE_S,
    KEY,
    OTHER,
    PLAIN,
    another_of_the_name,
    another_process,
    header_word,
    prepared_key,
    replace,
)
from structlog.testing import capture_logs

from prover.errors import Cancelled, KeyUnavailable, MalformedKey, SettingsInvalid
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine, LoadedKey
from prover.keys.prepared import prepared_keys


@pytest.fixture
def engine(portable_engine: Engine) -> Engine:
    return portable_engine


def test_load__before_and_after_prepare__gives_the_same_key(engine: Engine, source: Path, folder: Path) -> None:
    assert header_word(engine, source, folder) == (False, PLAIN)
    assert prepared_keys.prepare(engine, source, folder)
    assert header_word(engine, source, folder) == (True, PLAIN)
    path = prepared_keys.path_of(engine, source, folder)
    assert path.name == "tiny.key.r256.prepared"
    assert stat.S_IMODE(path.stat().st_mode) == 0o444
    assert all_but_notes(folder) == [path]
    assert not prepared_keys.prepare(engine, source, folder)
    assert prepared_keys.prepare(engine, source, folder, force=True)
    prepared_keys.verify(path, source, hashlib.sha256(KEY).digest(), CancelFlag())


def test_prepare__room_for_tables__makes_larger_ones_again_and_smaller_ones_by_force(
    engine: Engine, source: Path, folder: Path
) -> None:
    def table_bytes() -> int:
        with prepared_keys.load(engine, source, folder) as key:
            return key.info.table_bytes

    room, found = 2**20, []
    for options in ({}, {"table_bytes": 22_000}, {"table_bytes": room}, {"table_bytes": 22_000}, {"force": True}):
        made = prepared_keys.prepare(engine, source, folder, **options)
        found.append((made, table_bytes()))
    whole = found[2][1]
    assert found == [(True, 0), (True, found[1][1]), (True, whole), (False, whole), (True, 0)]
    assert 0 < found[1][1] <= 22_000 < whole <= room


def test_prepare__folded__stays_so_until_forced(engine: Engine, source: Path, folder: Path) -> None:
    def is_folded() -> tuple[bool, bool]:
        with prepared_keys.load(engine, source, folder) as key:
            return key.info.fold_bytes > 0, key.info.table_bytes > 0

    found = []
    for options in ({}, {"fold": True}, {"fold": True}, {}, {"table_bytes": 22_000}, {"force": True}):
        made = prepared_keys.prepare(engine, source, folder, **options)
        found.append((made, *is_folded()))
    assert [made for made, *_ in found] == [True, True, False, False, True, True]
    assert [state for _, *state in found] == [
        [False, False],
        [True, False],
        [True, False],
        [True, False],
        [True, True],
        [False, False],
    ]


def test_load__source_replaced_by_another_key__is_not_served_the_old_one(
    engine: Engine, source: Path, folder: Path
) -> None:
    prepared_keys.prepare(engine, source, folder)
    replace(source, OTHER)
    assert header_word(engine, source, folder) == (False, 7)
    assert prepared_keys.prepare(engine, source, folder)
    assert header_word(engine, source, folder) == (True, 7)


def test_load__source_replaced_with_equal_size_and_time__is_not_served_the_old_one(
    engine: Engine, source: Path, folder: Path
) -> None:
    prepared_keys.prepare(engine, source, folder)
    before = source.stat()
    replace(source, OTHER, before.st_mtime_ns)
    after = source.stat()
    assert (after.st_mtime_ns, after.st_size) == (before.st_mtime_ns, before.st_size)
    assert header_word(engine, source, folder) == (False, 7)


def test_load__another_source_of_the_name_made_before__is_not_served_the_form_of_the_first(
    engine: Engine, source: Path, folder: Path
) -> None:
    """Layers of an image, archives and builds give all their files one time, and folders share a prepared folder."""
    other = another_of_the_name(source, OTHER)
    for path in (source, other):
        os.utime(path, ns=(0, 0))
    prepared_keys.prepare(engine, source, folder)
    assert header_word(engine, source, folder) == (True, PLAIN)
    assert header_word(engine, other, folder) == (False, 7)


def test_load__source_touched_or_copied__is_compared_once_and_taken(
    engine: Engine, source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared_keys.prepare(engine, source, folder)
    replace(source, KEY, source.stat().st_mtime_ns + 10**9)
    assert header_word(engine, source, folder) == (True, PLAIN)
    monkeypatch.setattr(prepared_keys, "sha256_of_file", lambda *_: "")
    assert header_word(engine, source, folder) == (True, PLAIN), "it was compared before"
    source.chmod(0o440)
    assert header_word(engine, source, folder) == (False, PLAIN)


@pytest.mark.parametrize("size", [0, 1, 4096])
def test_load__prepared_file_cut_short__takes_the_source_and_prepare_repairs(
    engine: Engine, source: Path, folder: Path, size: int
) -> None:
    path = prepared_key(engine, source, folder)
    cut = path.read_bytes()[:size]
    replace(path, cut)
    with capture_logs() as lines:
        assert header_word(engine, source, folder) == (False, PLAIN)
    assert [line["event"] for line in lines if line["log_level"] == "warning"] == ["prepared_key_unusable"]
    assert prepared_keys.prepare(engine, source, folder)
    assert header_word(engine, source, folder) == (True, PLAIN)


def test_load__prepared_file_with_a_flipped_bit_in_a_point__takes_the_source(
    engine: Engine, source: Path, folder: Path
) -> None:
    path = prepared_key(engine, source, folder)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    replace(path, bytes(data))
    assert header_word(engine, source, folder) == (False, PLAIN)
    with pytest.raises(MalformedKey, match=r"tiny\.key\.r256\.prepared: .*checksum"):
        prepared_keys.verify(path, source, hashlib.sha256(KEY).digest(), CancelFlag())


def test_verify__prepared_file_of_another_release__is_malformed(engine: Engine, source: Path, folder: Path) -> None:
    path = prepared_key(engine, source, folder)
    with pytest.raises(MalformedKey, match=r"it was made from another release of tiny\.key"):
        prepared_keys.verify(path, source, hashlib.sha256(OTHER).digest(), CancelFlag())


def test_load__prepared_file_that_others_may_write__is_not_used(engine: Engine, source: Path, folder: Path) -> None:
    prepared_keys.prepare(engine, source, folder)
    prepared_keys.path_of(engine, source, folder).chmod(0o666)
    with capture_logs() as lines:
        assert header_word(engine, source, folder) == (False, PLAIN)
    assert "others may write" in next(line["error"] for line in lines if line["event"] == "prepared_key_unusable")


def test_load__of_a_missing_source__reports_it(engine: Engine, source: Path, folder: Path) -> None:
    prepared_keys.prepare(engine, source, folder)
    source.unlink()
    with pytest.raises(KeyUnavailable, match=r"key file tiny\.key cannot be read"):
        prepared_keys.load(engine, source, folder)


def test_load__source_cut_short_while_it_is_read__is_malformed(
    engine: Engine, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It used to be mapped, and the process ended with SIGBUS."""
    read = os.preadv

    def cut_then_read(descriptor: int, buffers: Any, offset: int) -> int:
        os.truncate(source, 100)
        return read(descriptor, buffers, offset)

    monkeypatch.setattr(os, "preadv", cut_then_read)
    with pytest.raises(MalformedKey, match=r"key file tiny\.key: the file was truncated to 100 bytes"):
        prepared_keys.load_source(engine, source)


def test_load__cancelled__stops(engine: Engine, source: Path, folder: Path) -> None:
    cancel = CancelFlag()
    cancel.raise_flag()
    with pytest.raises(Cancelled):
        prepared_keys.load(engine, source, folder, cancel)


def map_of(path: Path) -> tuple[dict[str, int], list[str]]:
    """Return what the system says about this process's map of a file, in kB, and its flags."""
    text = Path("/proc/self/smaps").read_text()
    sizes, rest = text[text.index(str(path)) :].split("VmFlags:", 1)
    sizes_kb = {name: int(kb) for name, kb in re.findall(r"^(\w+): +(\d+) kB$", sizes, re.MULTILINE)}
    return sizes_kb, rest.partition("\n")[0].split()


def test_pages__of_two_processes__are_shared(engine: Engine, source: Path, folder: Path) -> None:
    prepared_keys.prepare(engine, source, folder)
    other = another_process("load", source, folder)
    with other, prepared_keys.load(engine, source, folder) as key:
        assert other.stdout is not None
        assert other.stdout.readline() == "in\n"
        key.verifying_key.write()
        pages, _ = map_of(prepared_keys.path_of(engine, source, folder))
        other.communicate("\n", timeout=DEADLINE_S)
    assert pages["Rss"] > 0
    assert pages["Shared_Clean"] + pages["Shared_Dirty"] == pages["Rss"]
    assert pages["Pss"] <= pages["Rss"] // 2 + 1


@pytest.mark.skipif(not Path("/sys/kernel/mm/transparent_hugepage").is_dir(), reason="this kernel has no huge pages")
@pytest.mark.parametrize("is_large", [True, False])
def test_load__prepared_key__asks_for_huge_pages_where_it_is_large(
    engine: Engine, source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, is_large: bool
) -> None:
    path = prepared_key(engine, source, folder)
    monkeypatch.setattr(prepared_keys, "HUGE_PAGES_FROM", path.stat().st_size + (not is_large))
    with prepared_keys.load(engine, source, folder):
        _, flags = map_of(path)
    assert ("hg" in flags) == is_large


def test_prepare__by_two_processes__is_done_by_one(engine: Engine, source: Path, folder: Path) -> None:
    first = another_process("wait", source, folder)
    made: list[bool] = []
    with first:
        assert first.stdout is not None
        assert first.stdout.readline() == "in\n"
        second = threading.Thread(target=lambda: made.append(prepared_keys.prepare(engine, source, folder)))
        second.start()
        answer, _ = first.communicate("\n", timeout=DEADLINE_S)
        second.join(DEADLINE_S)
    assert (answer.splitlines()[-1], made) == ("True", [False])
    assert len(all_but_notes(folder)) == 1


def test_prepare__waiting_for_another_process__can_be_cancelled(engine: Engine, source: Path, folder: Path) -> None:
    cancel = CancelFlag()
    with another_process("wait", source, folder) as first:
        assert first.stdout is not None
        first.stdout.readline()
        threading.Timer(0.1, cancel.raise_flag).start()
        with pytest.raises(Cancelled):
            prepared_keys.prepare(engine, source, folder, cancel=cancel)
        first.communicate("\n", timeout=DEADLINE_S)


def test_prepare__killed__leaves_nothing_valid_and_no_lock(engine: Engine, source: Path, folder: Path) -> None:
    with another_process("die", source, folder) as killed:
        assert killed.wait(DEADLINE_S) == -signal.SIGKILL
    left = list(folder.iterdir())
    assert [path.suffix for path in left] == [".partial"]
    assert header_word(engine, source, folder) == (False, PLAIN)
    assert prepared_keys.prepare(engine, source, folder)
    assert all_but_notes(folder) == [prepared_keys.path_of(engine, source, folder)]


def test_prepare__cancelled_while_writing__leaves_nothing(engine: Engine, source: Path, folder: Path) -> None:
    cancel = CancelFlag()
    with pytest.raises(Cancelled):
        prepared_keys.prepare(engine, source, folder, check=lambda _: cancel.raise_flag(), cancel=cancel)
    assert list(folder.iterdir()) == []


def test_prepare__check_refuses_the_key__writes_nothing(engine: Engine, source: Path, folder: Path) -> None:
    def refuse(_: LoadedKey) -> None:
        raise KeyUnavailable("not this one")

    with pytest.raises(KeyUnavailable, match="not this one"):
        prepared_keys.prepare(engine, source, folder, check=refuse)
    assert list(folder.iterdir()) == []


def no_room(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_prepare__without_room__reports_it_and_leaves_nothing(
    engine: Engine, source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "posix_fallocate", no_room)
    with pytest.raises(SettingsInvalid, match="free some space"):
        prepared_keys.prepare(engine, source, folder)
    assert list(folder.iterdir()) == []


def test_prepare__where_there_is_no_folder_to_make__reports_it(engine: Engine, source: Path) -> None:
    with pytest.raises(SettingsInvalid, match="cannot write"):
        prepared_keys.prepare(engine, source, source / "inside")
