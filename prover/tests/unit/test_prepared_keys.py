"""Prepared keys on disk: which are used, how they come about, and what is left when that fails. On the tiny key."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from golden_vectors import load as vectors
from prepared_file import all_but_notes
from structlog.testing import capture_logs

from prover.errors import Cancelled, KeyUnavailable, MalformedKey, SettingsInvalid
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Backend, Engine, LoadedKey
from prover.keys import atomic_file as atomic_file_module
from prover.keys import preparation_lock, prepared
from prover.keys.atomic_file import atomic_file
from prover.keys.preparation import PreparedKeys

KEY = bytes.fromhex(vectors("gnark/tiny.json")["key_v0_14_hex"])
OTHER = KEY[:3] + b"\x07" + KEY[4:]
"""Another key of the same size: the first word of its wrapper differs."""
DEADLINE_S = 60
_flock = fcntl.flock

IN_ANOTHER_PROCESS = """
import os, signal, sys
from pathlib import Path
from prover.kernel.engine import Backend, Engine
from prover.keys import prepared

def say_and_wait(_):
    print("in", flush=True)
    sys.stdin.readline()

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

engine, source, folder = Engine(threads=1, backend=Backend.PORTABLE), Path(sys.argv[2]), Path(sys.argv[3])
if sys.argv[1] == "wait":
    print(prepared.prepare(engine, source, folder, check=say_and_wait), flush=True)
elif sys.argv[1] == "die":
    prepared.verify_prepared = die
    prepared.prepare(engine, source, folder)
else:
    key = prepared.load(engine, source, folder)
    key.verifying_key.write()
    say_and_wait(key)
"""


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine(threads=1, backend=Backend.PORTABLE) as engine:
        yield engine


def another_process(mode: str, source: Path, folder: Path) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    words = [sys.executable, "-c", IN_ANOTHER_PROCESS, mode, str(source), str(folder)]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def header_word(engine: Engine, source: Path, folder: Path) -> tuple[bool, int]:
    """Whether the key came from its prepared form, and the word in which KEY and OTHER differ."""
    with prepared.load(engine, source, folder) as key:
        return key.is_prepared, key.info.header[0]


def has(engine: Engine, source: Path, folder: Path) -> bool:
    return prepared.path_of(engine, source, folder).exists()


def replace(path: Path, data: bytes, mtime_ns: int | None = None) -> None:
    """Put a new file in the place of another, in one step."""
    new = path.with_suffix(".new")
    new.write_bytes(data)
    if mtime_ns is not None:
        os.utime(new, ns=(mtime_ns, mtime_ns))
    new.replace(path)


PLAIN = int.from_bytes(KEY[:4], "big")


# ---- which prepared keys are used -----------------------------------------------------------------------


def test_load__before_and_after_prepare__gives_the_same_key(engine: Engine, source: Path, folder: Path) -> None:
    assert header_word(engine, source, folder) == (False, PLAIN)
    assert prepared.prepare(engine, source, folder)
    assert header_word(engine, source, folder) == (True, PLAIN)
    path = prepared.path_of(engine, source, folder)
    assert path.name == "tiny.key.r256.prepared"
    assert stat.S_IMODE(path.stat().st_mode) == 0o444
    assert all_but_notes(folder) == [path]
    assert not prepared.prepare(engine, source, folder)
    assert prepared.prepare(engine, source, folder, force=True)
    prepared.verify(path, source, hashlib.sha256(KEY).digest(), CancelFlag())


def test_prepare__room_for_tables__makes_larger_ones_anew_and_smaller_ones_by_force(
    engine: Engine, source: Path, folder: Path
) -> None:
    def table_bytes() -> int:
        with prepared.load(engine, source, folder) as key:
            return key.info.table_bytes

    room, found = 2**20, []
    for options in ({}, {"table_bytes": 22_000}, {"table_bytes": room}, {"table_bytes": 22_000}, {"force": True}):
        made = prepared.prepare(engine, source, folder, **options)
        found.append((made, table_bytes()))
    whole = found[2][1]
    assert found == [(True, 0), (True, found[1][1]), (True, whole), (False, whole), (True, 0)]
    assert 0 < found[1][1] <= 22_000 < whole <= room


def test_prepare__folded__stays_so_until_forced(engine: Engine, source: Path, folder: Path) -> None:
    def is_folded() -> tuple[bool, bool]:
        with prepared.load(engine, source, folder) as key:
            return key.info.fold_bytes > 0, key.info.table_bytes > 0

    found = []
    for options in ({}, {"fold": True}, {"fold": True}, {}, {"table_bytes": 22_000}, {"force": True}):
        made = prepared.prepare(engine, source, folder, **options)
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
    prepared.prepare(engine, source, folder)
    replace(source, OTHER)
    assert header_word(engine, source, folder) == (False, 7)
    assert prepared.prepare(engine, source, folder)
    assert header_word(engine, source, folder) == (True, 7)


def test_load__source_replaced_with_equal_size_and_time__is_not_served_the_old_one(
    engine: Engine, source: Path, folder: Path
) -> None:
    prepared.prepare(engine, source, folder)
    before = source.stat()
    replace(source, OTHER, before.st_mtime_ns)
    after = source.stat()
    assert (after.st_mtime_ns, after.st_size) == (before.st_mtime_ns, before.st_size)
    assert header_word(engine, source, folder) == (False, 7)


def test_load__another_source_of_the_name_made_before__is_not_served_the_form_of_the_first(
    engine: Engine, source: Path, folder: Path
) -> None:
    """Layers of an image, archives and builds give all their files one time, and folders share a prepared folder."""
    other = source.parent / "other" / source.name
    other.parent.mkdir()
    other.write_bytes(OTHER)
    for path in (source, other):
        os.utime(path, ns=(0, 0))
    prepared.prepare(engine, source, folder)
    assert header_word(engine, source, folder) == (True, PLAIN)
    assert header_word(engine, other, folder) == (False, 7)


def test_load__source_touched_or_copied__is_compared_once_and_taken(
    engine: Engine, source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared.prepare(engine, source, folder)
    replace(source, KEY, source.stat().st_mtime_ns + 10**9)
    assert header_word(engine, source, folder) == (True, PLAIN)
    monkeypatch.setattr(prepared, "_digest_of", lambda *_: b"")
    assert header_word(engine, source, folder) == (True, PLAIN), "it was compared before"
    source.chmod(0o440)
    assert header_word(engine, source, folder) == (False, PLAIN)


@pytest.mark.parametrize("size", [0, 1, 4096])
def test_load__prepared_file_cut_short__takes_the_source_and_prepare_repairs(
    engine: Engine, source: Path, folder: Path, size: int
) -> None:
    prepared.prepare(engine, source, folder)
    path = prepared.path_of(engine, source, folder)
    cut = path.read_bytes()[:size]
    replace(path, cut)
    with capture_logs() as lines:
        assert header_word(engine, source, folder) == (False, PLAIN)
    assert [line["event"] for line in lines if line["log_level"] == "warning"] == ["prepared_key_unusable"]
    assert prepared.prepare(engine, source, folder)
    assert header_word(engine, source, folder) == (True, PLAIN)


def test_load__prepared_file_with_a_flipped_bit_in_a_point__takes_the_source(
    engine: Engine, source: Path, folder: Path
) -> None:
    prepared.prepare(engine, source, folder)
    path = prepared.path_of(engine, source, folder)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    replace(path, bytes(data))
    assert header_word(engine, source, folder) == (False, PLAIN)
    with pytest.raises(MalformedKey, match=r"tiny\.key\.r256\.prepared: .*checksum"):
        prepared.verify(path, source, hashlib.sha256(KEY).digest(), CancelFlag())


def test_verify__prepared_file_of_another_edition__is_malformed(engine: Engine, source: Path, folder: Path) -> None:
    prepared.prepare(engine, source, folder)
    path = prepared.path_of(engine, source, folder)
    with pytest.raises(MalformedKey, match=r"it was made from another edition of tiny\.key"):
        prepared.verify(path, source, hashlib.sha256(OTHER).digest(), CancelFlag())


def test_load__prepared_file_that_others_may_write__is_not_used(engine: Engine, source: Path, folder: Path) -> None:
    prepared.prepare(engine, source, folder)
    prepared.path_of(engine, source, folder).chmod(0o666)
    with capture_logs() as lines:
        assert header_word(engine, source, folder) == (False, PLAIN)
    assert "others may write" in next(line["error"] for line in lines if line["event"] == "prepared_key_unusable")


def test_load__of_a_missing_source__says_so(engine: Engine, source: Path, folder: Path) -> None:
    prepared.prepare(engine, source, folder)
    source.unlink()
    with pytest.raises(KeyUnavailable, match=r"key file tiny\.key cannot be read"):
        prepared.load(engine, source, folder)


def test_load__source_cut_short_while_it_is_read__is_malformed(
    engine: Engine, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It used to be mapped, and the process ended with SIGBUS."""
    read = os.preadv

    def cut_then_read(descriptor: int, buffers: Any, offset: int) -> int:
        os.truncate(source, 100)
        return read(descriptor, buffers, offset)

    monkeypatch.setattr(os, "preadv", cut_then_read)
    with pytest.raises(MalformedKey, match=r"key file tiny\.key: the file was cut short to 100 bytes"):
        prepared.load_source(engine, source)


def test_load__cancelled__stops(engine: Engine, source: Path, folder: Path) -> None:
    cancel = CancelFlag()
    cancel.raise_flag()
    with pytest.raises(Cancelled):
        prepared.load(engine, source, folder, cancel)


def map_of(path: Path) -> dict[str, int]:
    """What the system says about this process's map of a file, in kB."""
    text = Path("/proc/self/smaps").read_text()
    block = text[text.index(str(path)) :]
    return {name: int(kb) for name, kb in re.findall(r"^(\w+): +(\d+) kB$", block.split("VmFlags")[0], re.MULTILINE)}


def test_pages__of_two_processes__are_shared(engine: Engine, source: Path, folder: Path) -> None:
    prepared.prepare(engine, source, folder)
    other = another_process("load", source, folder)
    with other, prepared.load(engine, source, folder) as key:
        assert other.stdout is not None
        assert other.stdout.readline() == "in\n"
        key.verifying_key.write()
        pages = map_of(prepared.path_of(engine, source, folder))
        other.communicate("\n", timeout=DEADLINE_S)
    assert pages["Rss"] > 0
    assert pages["Shared_Clean"] + pages["Shared_Dirty"] == pages["Rss"]
    assert pages["Pss"] <= pages["Rss"] // 2 + 1


# ---- how they come about -------------------------------------------------------------------------------


def test_prepare__by_two_processes__is_done_by_one(engine: Engine, source: Path, folder: Path) -> None:
    first = another_process("wait", source, folder)
    made: list[bool] = []
    with first:
        assert first.stdout is not None
        assert first.stdout.readline() == "in\n"
        second = threading.Thread(target=lambda: made.append(prepared.prepare(engine, source, folder)))
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
            prepared.prepare(engine, source, folder, cancel=cancel)
        first.communicate("\n", timeout=DEADLINE_S)


def test_prepare__killed__leaves_nothing_valid_and_no_lock(engine: Engine, source: Path, folder: Path) -> None:
    with another_process("die", source, folder) as killed:
        assert killed.wait(DEADLINE_S) == -signal.SIGKILL
    left = list(folder.iterdir())
    assert [path.suffix for path in left] == [".partial"]
    assert header_word(engine, source, folder) == (False, PLAIN)
    assert prepared.prepare(engine, source, folder)
    assert all_but_notes(folder) == [prepared.path_of(engine, source, folder)]


def test_prepare__cancelled_while_writing__leaves_nothing(engine: Engine, source: Path, folder: Path) -> None:
    cancel = CancelFlag()
    with pytest.raises(Cancelled):
        prepared.prepare(engine, source, folder, check=lambda _: cancel.raise_flag(), cancel=cancel)
    assert list(folder.iterdir()) == []


def test_prepare__check_refuses_the_key__writes_nothing(engine: Engine, source: Path, folder: Path) -> None:
    def refuse(_: LoadedKey) -> None:
        raise KeyUnavailable("not this one")

    with pytest.raises(KeyUnavailable, match="not this one"):
        prepared.prepare(engine, source, folder, check=refuse)
    assert list(folder.iterdir()) == []


def no_room(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_prepare__without_room__says_so_and_leaves_nothing(
    engine: Engine, source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "posix_fallocate", no_room)
    with pytest.raises(SettingsInvalid, match="free some space"):
        prepared.prepare(engine, source, folder)
    assert list(folder.iterdir()) == []


def test_prepare__where_there_is_no_folder_to_make__says_so(engine: Engine, source: Path) -> None:
    with pytest.raises(SettingsInvalid, match="cannot write"):
        prepared.prepare(engine, source, source / "inside")


# ---- in a running prover ---------------------------------------------------------------------------------


def test_prepared_keys__after_the_first_load__have_it_for_the_second(
    engine: Engine, source: Path, folder: Path
) -> None:
    keys = PreparedKeys(folder)
    assert not has(engine, source, folder)
    with keys.load_source(engine, source) as key:
        assert not key.is_prepared
        keys.prepare_later(engine, key, source)
        wait_until(lambda: has(engine, source, folder))
    again = keys.map(engine, source)
    assert again is not None
    with again:
        assert again.is_prepared
        keys.prepare_later(engine, again, source)
    keys.close()
    assert len(all_but_notes(folder)) == 1


def test_prepared_keys__source_replaced_after_the_load__are_not_stamped_with_it(
    engine: Engine, source: Path, folder: Path
) -> None:
    keys = PreparedKeys(folder)
    with keys.load_source(engine, source) as key:
        replace(source, OTHER)
        keys.prepare_later(engine, key, source)
        wait_until(lambda: has(engine, source, folder))
    keys.close()
    assert header_word(engine, source, folder) == (False, 7)


def test_prepared_keys__in_an_unusable_folder__warn_once(engine: Engine, source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a-file"
    folder.write_text("")
    keys = PreparedKeys(folder)
    with capture_logs() as lines:
        for _ in range(3):
            with keys.load_source(engine, source) as key:
                keys.prepare_later(engine, key, source)
                wait_until(lambda: keys._worker is None)
    keys.close()
    warnings = [line for line in lines if line["event"] == "key_not_prepared"]
    assert len(warnings) == 1
    assert "PROVER_KEYS__PREPARED_DIRECTORY" in warnings[0]["remedy"]


def test_prepared_keys__on_a_disk_that_is_nearly_full__leave_it_alone(
    engine: Engine, source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = 2**28
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    keys = PreparedKeys(folder)
    with capture_logs() as lines, keys.load_source(engine, source) as key:
        keys.prepare_later(engine, key, source)
        wait_until(lambda: keys._worker is None)
    keys.close()
    assert "free some space" in next(line["error"] for line in lines if line["event"] == "key_not_prepared")
    assert list(folder.iterdir()) == []
    assert prepared.prepare(engine, source, folder)  # asked for, it may


def test_prepared_keys__key_closed_before_it_is_written__is_passed_over(
    engine: Engine, source: Path, folder: Path
) -> None:
    keys = PreparedKeys(folder)
    with capture_logs() as lines:
        key = keys.load_source(engine, source)
        key.close()
        keys.prepare_later(engine, key, source)
        wait_until(lambda: keys._worker is None)
    keys.close()
    assert not has(engine, source, folder)
    assert [line for line in lines if line["log_level"] in ("warning", "error")] == []


def test_prepared_keys__another_process_prepares_one__are_not_held_up(
    engine: Engine, source: Path, folder: Path
) -> None:
    """Folding takes hours: the keys behind must not wait for it."""
    second, keys = source.with_name("second.key"), PreparedKeys(folder)
    second.write_bytes(OTHER)
    with another_process("wait", source, folder) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "in\n"
        with keys.load_source(engine, source) as first, keys.load_source(engine, second) as next_one:
            keys.prepare_later(engine, first, source)
            keys.prepare_later(engine, next_one, second)
            wait_until(lambda: has(engine, second, folder))
            assert not has(engine, source, folder)
        other.communicate("\n", timeout=DEADLINE_S)
    keys.close()
    assert header_word(engine, source, folder) == (True, PLAIN)


def test_prepared_keys__closed__take_no_more_orders(engine: Engine, source: Path, folder: Path) -> None:
    keys = PreparedKeys(folder)
    key = keys.load_source(engine, source)
    keys.close()
    keys.prepare_later(engine, key, source)
    key.close()
    assert not folder.exists()


def test_prepared_keys__once_the_disk_has_room_again__prepare_what_comes(
    engine: Engine, source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = 2**28
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    keys = PreparedKeys(folder)
    for room in (2**28, 2**40):
        free = room
        with keys.load_source(engine, source) as key:
            keys.prepare_later(engine, key, source)
            wait_until(lambda: keys._worker is None)
    keys.close()
    assert has(engine, source, folder)


def test_prepared_keys__after_one_was_killed__measure_the_disk_without_what_it_left(
    engine: Engine, source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.mkdir()
    left = folder / f".{prepared.path_of(engine, source, folder).name}.0123.partial"
    left.write_bytes(b"x")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0 if left.exists() else 2**40))
    keys = PreparedKeys(folder)
    with keys.load_source(engine, source) as key:
        keys.prepare_later(engine, key, source)
        wait_until(lambda: keys._worker is None)
    keys.close()
    assert all_but_notes(folder) == [prepared.path_of(engine, source, folder)]


def of_another_version(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[8] += 1
    replace(path, bytes(data))


@pytest.mark.parametrize("reason", ["version", "user"])
def test_prepared_keys__form_that_is_not_for_this_process__is_left_to_those_whose_it_is(
    engine: Engine, source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    """Two versions, or two users, of a rolling update would else write it in turns, and what was folded be lost."""
    prepared.prepare(engine, source, folder)
    path = prepared.path_of(engine, source, folder)
    if reason == "version":
        of_another_version(path)
    else:
        me = os.geteuid()
        monkeypatch.setattr(prepared, "objection", lambda *_: "it belongs to another user")
        monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    before = path.read_bytes()
    keys = PreparedKeys(folder)
    assert keys.map(engine, source) is None
    with keys.load_source(engine, source) as key:
        keys.prepare_later(engine, key, source)
        wait_until(lambda: keys._worker is None)
    keys.close()
    assert path.read_bytes() == before
    monkeypatch.undo()
    if reason == "version":
        assert prepared.prepare(engine, source, folder), "asked for, it is made"
    assert header_word(engine, source, folder) == (True, PLAIN)


def test_prepared_keys__own_form_that_everybody_may_write__is_made_anew(
    engine: Engine, source: Path, folder: Path
) -> None:
    prepared.prepare(engine, source, folder)
    path = prepared.path_of(engine, source, folder)
    path.chmod(0o666)
    keys = PreparedKeys(folder)
    with keys.load_source(engine, source) as key:
        keys.prepare_later(engine, key, source)
        wait_until(lambda: keys._worker is None)
    keys.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o444
    assert header_word(engine, source, folder) == (True, PLAIN)


def test_load__form_that_a_volume_gave_to_our_group__is_taken_and_closed_to_it(
    engine: Engine, source: Path, folder: Path
) -> None:
    """The fsGroup of a pod gets the right to write to whatever is in a volume."""
    prepared.prepare(engine, source, folder)
    path = prepared.path_of(engine, source, folder)
    os.chown(path, -1, os.getegid())
    path.chmod(0o664)
    assert header_word(engine, source, folder) == (True, PLAIN)
    assert stat.S_IMODE(path.stat().st_mode) == 0o444


def test_prepare__two_key_files_of_one_name__leave_what_the_other_writes_alone(
    engine: Engine, source: Path, folder: Path
) -> None:
    """Pods with keys of their own, and one folder of prepared ones: their locks are on two files."""
    other = source.parent / "other" / source.name
    other.parent.mkdir()
    other.write_bytes(KEY)
    written: list[bool] = []

    def second(_: LoadedKey) -> None:
        path = prepared.path_of(engine, source, folder)
        with atomic_file(path, force=True) as file:
            written.append(prepared.prepare(engine, other, folder))
            file.write(path.read_bytes())

    assert prepared.prepare(engine, source, folder, check=second, force=True)
    assert written == [True]
    assert header_word(engine, source, folder) == (True, PLAIN)
    assert header_word(engine, other, folder) == (True, PLAIN)


def test_mark__of_a_form_that_was_replaced__is_void(engine: Engine, source: Path, folder: Path) -> None:
    prepared.prepare(engine, source, folder)
    path = prepared.path_of(engine, source, folder)
    other = source.parent / "other" / source.name
    other.parent.mkdir()
    other.write_bytes(OTHER)
    prepared.prepare(engine, other, other.parent)
    replace(path, prepared.path_of(engine, other, other.parent).read_bytes())
    assert header_word(engine, source, folder) == (False, PLAIN)


def test_prepare__killed_when_its_file_was_whole__is_cleared_up_by_any_user(
    engine: Engine, source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is closed to everybody then; only root opens it for writing all the same."""
    folder.mkdir()
    left = folder / f".{prepared.path_of(engine, source, folder).name}.0123.partial"
    left.write_bytes(b"x")
    opened = os.open

    def as_user(path: Any, flags: int, mode: int = 0o777) -> int:
        if path == left and flags & os.O_RDWR:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(path, flags, mode)

    monkeypatch.setattr(os, "open", as_user)
    assert prepared.prepare(engine, source, folder)
    assert not left.exists()


def test_mark__under_a_private_umask__is_for_all_who_may_read_the_form(
    engine: Engine, source: Path, folder: Path
) -> None:
    before = os.umask(0o077)
    try:
        prepared.prepare(engine, source, folder)
    finally:
        os.umask(before)
    (note,) = folder.glob(".*.mark")
    assert stat.S_IMODE(note.stat().st_mode) == 0o444


def test_prepare__cleared_up_between_its_last_two_steps__is_published_all_the_same(
    engine: Engine, source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = atomic_file_module._publish

    def clear_up_first(hidden: Path, path: Path, *, force: bool) -> None:
        preparation_lock._remove_remains(path)
        published(hidden, path, force=force)

    monkeypatch.setattr(atomic_file_module, "_publish", clear_up_first)
    assert prepared.prepare(engine, source, folder)
    assert header_word(engine, source, folder) == (True, PLAIN)


def test_verify__form_of_ours_that_everybody_may_write__is_refused_as_at_a_load(
    engine: Engine, source: Path, folder: Path
) -> None:
    prepared.prepare(engine, source, folder)
    path = prepared.path_of(engine, source, folder)
    path.chmod(0o666)
    with pytest.raises(KeyUnavailable, match="others may write to it"):
        prepared.verify(path, source, hashlib.sha256(KEY).digest(), CancelFlag())


# ---- where locks are those of NFS, or none ---------------------------------------------------------------


def as_nfs(descriptor: int, operation: int) -> None:
    """LOCK_EX takes a descriptor that may write, says flock(2) of NFS."""
    if operation & fcntl.LOCK_EX and fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    _flock(descriptor, operation)


def as_nothing(descriptor: int, operation: int) -> None:
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


def test_prepare__on_nfs__is_done_by_one_and_clears_up(
    engine: Engine, source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", as_nfs)
    folder.mkdir()
    path = prepared.path_of(engine, source, folder)
    left = folder / f".{path.name}.0123.partial"
    left.write_bytes(b"x")
    made: list[bool] = []

    def second(_: LoadedKey) -> None:
        with prepared.load_with_origin(engine, source)[0] as key:
            origin = prepared.load_with_origin(engine, source)[1]
            made.append(prepared.prepare_loaded(key, origin, engine, source, folder, CancelFlag()))

    assert prepared.prepare(engine, source, folder, check=second)
    assert made == [False]
    assert all_but_notes(folder) == [folder / f".{path.name}.lock", path]


def test_prepare__without_locks__is_done_all_the_same_and_clears_up_what_is_old(
    engine: Engine, source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", as_nothing)
    folder.mkdir()
    path = prepared.path_of(engine, source, folder)
    old, recent = (folder / f".{path.name}.{number}.partial" for number in ("0123", "4567"))
    for left in (old, recent):
        left.write_bytes(b"x")
    now = time.time()
    monkeypatch.setattr(preparation_lock, "_ABANDONED_S", 0.2)
    while time.time() - now < 0.3:
        recent.touch()
        time.sleep(0.01)
    assert prepared.prepare(engine, source, folder)
    assert header_word(engine, source, folder) == (True, PLAIN)
    assert (old.exists(), recent.exists()) == (False, True)
