"""Prepared keys that several users, releases or machines share: ownership, concurrent preparation, leftovers."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest
from prepared_file import all_but_notes
from prepared_folders import (
    KEY,
    OTHER,
    PLAIN,
    another_of_the_name,
    header_word,
    left_of_killed,
    prepare_after_load,
    prepare_in_background,
    prepared_key,
    replace,
)

from prover.errors import KeyUnavailable
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine, LoadedKey
from prover.keys.files import atomic_file as atomic_file_module
from prover.keys.files.atomic_file import atomic_file
from prover.keys.prepared import preparation_lock, prepared_keys
from prover.keys.prepared.preparation import PreparedKeys

_flock = fcntl.flock


@pytest.fixture
def engine(portable_engine: Engine) -> Engine:
    return portable_engine


def of_another_version(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[8] += 1
    replace(path, bytes(data))


@pytest.mark.parametrize("reason", ["version", "user"])
def test_prepared_keys__prepared_key_that_is_not_for_this_process__is_left_to_its_owner(
    engine: Engine, source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    """Otherwise two releases or users of a rolling update would overwrite each other's keys and lose the folding."""
    path = prepared_key(engine, source, folder)
    if reason == "version":
        of_another_version(path)
    else:
        me = os.geteuid()
        monkeypatch.setattr(prepared_keys, "untrusted_reason", lambda *_: "it belongs to another user")
        monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    before = path.read_bytes()
    keys = PreparedKeys(folder)
    assert keys.map(engine, source) is None
    prepare_after_load(keys, engine, source)
    keys.close()
    assert path.read_bytes() == before
    monkeypatch.undo()
    if reason == "version":
        assert prepared_keys.prepare(engine, source, folder), "on request it is made"
    assert header_word(engine, source, folder) == (True, PLAIN)


def test_prepared_keys__own_key_that_everybody_may_write__is_made_again(
    engine: Engine, source: Path, folder: Path
) -> None:
    path = prepared_key(engine, source, folder)
    path.chmod(0o666)
    prepare_in_background(engine, source, folder)
    assert stat.S_IMODE(path.stat().st_mode) == 0o444
    assert header_word(engine, source, folder) == (True, PLAIN)


def test_load__prepared_key_that_a_volume_gave_to_our_group__is_used_and_closed_to_it(
    engine: Engine, source: Path, folder: Path
) -> None:
    """Kubernetes gives the fsGroup of a pod write access to all files of a volume."""
    path = prepared_key(engine, source, folder)
    os.chown(path, -1, os.getegid())
    path.chmod(0o664)
    assert header_word(engine, source, folder) == (True, PLAIN)
    assert stat.S_IMODE(path.stat().st_mode) == 0o444


def test_prepare__two_key_files_of_one_name__leave_what_the_other_writes_alone(
    engine: Engine, source: Path, folder: Path
) -> None:
    """Pods with separate keys and a common folder of prepared keys lock different files."""
    other = another_of_the_name(source, KEY)
    written: list[bool] = []

    def second(_: LoadedKey) -> None:
        path = prepared_keys.path_of(engine, source, folder)
        with atomic_file(path, force=True) as file:
            written.append(prepared_keys.prepare(engine, other, folder))
            file.write(path.read_bytes())

    assert prepared_keys.prepare(engine, source, folder, check=second, force=True)
    assert written == [True]
    assert header_word(engine, source, folder) == (True, PLAIN)
    assert header_word(engine, other, folder) == (True, PLAIN)


def test_mark__of_a_key_that_was_replaced__is_void(engine: Engine, source: Path, folder: Path) -> None:
    path = prepared_key(engine, source, folder)
    other = another_of_the_name(source, OTHER)
    prepared_keys.prepare(engine, other, other.parent)
    replace(path, prepared_keys.path_of(engine, other, other.parent).read_bytes())
    assert header_word(engine, source, folder) == (False, PLAIN)


def test_prepare__killed_when_its_file_was_whole__is_cleared_up_by_any_user(
    engine: Engine, source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is closed to everybody then; only root can still open it for writing."""
    left = left_of_killed(engine, source, folder)
    opened = os.open

    def as_user(path: Any, flags: int, mode: int = 0o777) -> int:
        if path == left and flags & os.O_RDWR:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(path, flags, mode)

    monkeypatch.setattr(os, "open", as_user)
    assert prepared_keys.prepare(engine, source, folder)
    assert not left.exists()


def test_mark__under_a_private_umask__is_for_all_who_may_read_the_key(
    engine: Engine, source: Path, folder: Path
) -> None:
    before = os.umask(0o077)
    try:
        prepared_keys.prepare(engine, source, folder)
    finally:
        os.umask(before)
    (note,) = folder.glob(".*.mark")
    assert stat.S_IMODE(note.stat().st_mode) == 0o444


def test_prepare__cleared_up_between_its_last_two_steps__is_published_anyway(
    engine: Engine, source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = atomic_file_module._publish

    def clear_up_first(hidden: Path, path: Path, *, force: bool) -> None:
        preparation_lock._remove_abandoned_files(path)
        published(hidden, path, force=force)

    monkeypatch.setattr(atomic_file_module, "_publish", clear_up_first)
    assert prepared_keys.prepare(engine, source, folder)
    assert header_word(engine, source, folder) == (True, PLAIN)


def test_verify__form_of_ours_that_everybody_may_write__is_refused_as_at_a_load(
    engine: Engine, source: Path, folder: Path
) -> None:
    path = prepared_key(engine, source, folder)
    path.chmod(0o666)
    with pytest.raises(KeyUnavailable, match="others may write to it"):
        prepared_keys.verify(path, source, hashlib.sha256(KEY).digest(), CancelFlag())


def as_nfs(descriptor: int, operation: int) -> None:
    """Lock as on NFS, where LOCK_EX needs a writable descriptor (flock(2))."""
    if operation & fcntl.LOCK_EX and fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    _flock(descriptor, operation)


def as_nothing(descriptor: int, operation: int) -> None:
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


def test_prepare__on_nfs__is_done_by_one_and_clears_up(
    engine: Engine, source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", as_nfs)
    path = prepared_keys.path_of(engine, source, folder)
    left_of_killed(engine, source, folder)
    made: list[bool] = []

    def second(_: LoadedKey) -> None:
        key, origin = prepared_keys.load_with_origin(engine, source)
        with key:
            made.append(prepared_keys.prepare_loaded(key, origin, engine, source, folder, CancelFlag()))

    assert prepared_keys.prepare(engine, source, folder, check=second)
    assert made == [False]
    assert all_but_notes(folder) == [folder / f".{path.name}.lock", path]


def test_prepare__without_locks__is_done_anyway_and_clears_up_what_is_old(
    engine: Engine, source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", as_nothing)
    folder.mkdir()
    path = prepared_keys.path_of(engine, source, folder)
    old, recent = (folder / f".{path.name}.{number}.partial" for number in ("0123", "4567"))
    for left in (old, recent):
        left.write_bytes(b"x")
    now = time.time()
    monkeypatch.setattr(preparation_lock, "_ABANDONED_S", 0.2)
    while time.time() - now < 0.3:
        recent.touch()
        time.sleep(0.01)
    assert prepared_keys.prepare(engine, source, folder)
    assert header_word(engine, source, folder) == (True, PLAIN)
    assert (old.exists(), recent.exists()) == (False, True)
