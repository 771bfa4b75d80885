"""Folding for a prepared key that is stopped or killed and resumed by the next run, and its checkpoint files."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fold_checkpoints import POINTS_AT, Checkpoint, inclusion_key, stop_after_next_state
from golden_vectors import load
from prepared_file import all_but_notes
from structlog.testing import capture_logs

from prover.errors import Cancelled, UnsupportedKey
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Backend, Engine
from prover.kernel.prepared import write_prepared
from prover.keys.prepared import fold_checkpoint, prepared_keys

KEY = bytes.fromhex(load("gnark/tiny.json")["key_v0_14_hex"])
OTHER = KEY[:3] + b"\x07" + KEY[4:]
"""Another key of the same size: the first word of its wrapper differs."""
PROVER = Path(sys.executable).with_name("prover")
DEADLINE_S = 120
TRIES = 5

IN_ANOTHER_PROCESS = """
import sys
from pathlib import Path
from prover.kernel.engine import Backend, Engine
from prover.keys.prepared import fold_checkpoint
from prover.keys.prepared import prepared_keys

fold_checkpoint._INTERVAL_S = 0.05
with Engine(threads=1, backend=Backend.PORTABLE) as engine:
    prepared_keys.prepare(engine, Path(sys.argv[1]), Path(sys.argv[2]), fold=True)
"""


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine(threads=1, backend=Backend.PORTABLE) as engine:
        yield engine


@pytest.fixture(autouse=True)
def _always_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold_checkpoint, "_INTERVAL_S", 0)


@pytest.fixture(scope="module")
def expected(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The prepared key, folded without a stop."""
    folder = tmp_path_factory.mktemp("whole")
    source = folder / "tiny.key"
    source.write_bytes(KEY)
    prepared_keys.prepare(engine, source, folder, fold=True)
    return prepared_keys.path_of(engine, source, folder).read_bytes()


def stopped(engine: Engine, source: Path, folder: Path, states: int = 5) -> Path:
    """Start folding and stop it after each of so many states; gives the checkpoint."""
    write: Any = write_prepared

    def write_one_state(*words: Any, **options: Any) -> None:
        write(*words[:-1], stop_after_next_state(options["checkpoint"].data), **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepared_keys, "write_prepared", write_one_state)
        for _ in range(states):
            with pytest.raises(Cancelled):
                prepared_keys.prepare(engine, source, folder, fold=True)
    (left,) = all_but_notes(folder)
    assert left.name.startswith(".tiny.key.r256.prepared.")
    return left


def events(lines: list[Any]) -> list[str]:
    return [line["event"] for line in lines if line["event"].startswith("fold_")]


def prepare_logged(engine: Engine, source: Path, folder: Path, **options: Any) -> tuple[list[str], bytes]:
    """Fold a key; return the log lines about it and the prepared key, next to which no file is left."""
    with capture_logs() as lines:
        assert prepared_keys.prepare(engine, source, folder, fold=True, **options)
    path = prepared_keys.path_of(engine, source, folder)
    assert all_but_notes(folder) == [path]
    return events(lines), path.read_bytes()


def test_prepare__folding_stopped__is_continued(engine: Engine, source: Path, folder: Path, expected: bytes) -> None:
    with capture_logs() as lines:
        left = stopped(engine, source, folder)
    assert events(lines)[:3] == ["fold_checkpoint_saved", "fold_resumed", "fold_checkpoint_saved"]
    percents = [line["percent"] for line in lines if line["event"] == "fold_checkpoint_saved"]
    assert percents == sorted(percents)
    assert 0 < percents[-1] < 100
    assert left.stat().st_mode & 0o777 == 0o600
    assert prepare_logged(engine, source, folder) == (["fold_resumed"], expected)


def killed(source: Path, folder: Path, states: int) -> int:
    """Fold in another process and kill it when it has kept so many states; gives their number, 0 if it was faster."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    words = [sys.executable, "-c", IN_ANOTHER_PROCESS, str(source), str(folder)]
    deadline = time.monotonic() + DEADLINE_S
    with subprocess.Popen(words, env=environment) as process:
        reached = 0
        while reached < states:
            if process.poll() is not None:
                return 0
            assert time.monotonic() < deadline
            time.sleep(0.001)
            reached = states_in(folder)
        process.kill()
        ended = process.wait(DEADLINE_S)
    return states_in(folder) if ended == -signal.SIGKILL else 0


def states_in(folder: Path) -> int:
    for left in folder.glob(".*.fold"):
        if left.stat().st_size:
            with left.open("r+b") as file, mmap.mmap(file.fileno(), 0) as data:
                return Checkpoint(data).newest()
    return 0


def test_prepare__folding_killed_twice__is_continued_each_time(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process leaves its first state after a twentieth of a second, of a half or more that folding takes."""
    monkeypatch.setattr(fold_checkpoint, "_INTERVAL_S", 3600)
    source, folder, whole = tmp_path / "one.key", tmp_path / "killed", tmp_path / "whole"
    source.write_bytes(inclusion_key(engine, 1))
    first = second = 0
    for _ in range(TRIES):
        first = killed(source, folder, 1)
        second = killed(source, folder, first + 1) if first else 0
        if second:
            break
        shutil.rmtree(folder)
    assert 0 < first < second
    lines, made = prepare_logged(engine, source, folder)
    assert lines == ["fold_resumed"]
    prepared_keys.prepare(engine, source, whole, fold=True)
    assert made == prepared_keys.path_of(engine, source, whole).read_bytes()


def test_prepare__checkpoint_with_a_torn_state__continues_from_the_other(
    engine: Engine, source: Path, folder: Path, expected: bytes
) -> None:
    change(stopped(engine, source, folder), partial(flip, 5))
    assert prepare_logged(engine, source, folder) == (["fold_resumed"], expected)


def flip(generation: int, data: mmap.mmap) -> None:
    Checkpoint(data).flip(generation, POINTS_AT)


def change(path: Path, damage: Callable[[mmap.mmap], None]) -> None:
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        damage(data)


def flip_both(path: Path) -> None:
    for generation in (4, 5):
        change(path, partial(flip, generation))


def cut_short(path: Path) -> None:
    os.truncate(path, 4096)


def let_others_write(path: Path) -> None:
    path.chmod(0o666)


def rename_from_another_release(path: Path) -> None:
    path.rename(path.with_name(".tiny.key.r256.prepared.0123456789abcdef.fold"))


@pytest.mark.parametrize("damage", [flip_both, cut_short, let_others_write, rename_from_another_release])
def test_prepare__checkpoint_that_does_not_hold__is_removed_and_folding_starts_again(
    engine: Engine, source: Path, folder: Path, expected: bytes, damage: Callable[[Path], None]
) -> None:
    damage(stopped(engine, source, folder))
    assert prepare_logged(engine, source, folder) == (["fold_checkpoint_removed"], expected)


def test_prepare__key_replaced_by_another__does_not_take_its_checkpoint(
    engine: Engine, source: Path, folder: Path, expected: bytes
) -> None:
    left = stopped(engine, source, folder)
    source.write_bytes(OTHER)
    copy = left.read_bytes()
    lines, made = prepare_logged(engine, source, folder)
    assert lines == ["fold_checkpoint_removed"]
    assert made != expected
    source.write_bytes(KEY)
    left.write_bytes(copy)
    left.chmod(0o600)
    assert prepare_logged(engine, source, folder) == (["fold_resumed"], expected)


def test_prepare__checkpoint_under_the_name_of_another_key__is_removed(
    engine: Engine, source: Path, folder: Path, expected: bytes
) -> None:
    """Same size and shape; only the digest inside differs."""
    left = stopped(engine, source, folder)
    source.write_bytes(OTHER)
    (foreign,) = {stopped(engine, source, folder, 1)} - {left}
    copy = foreign.read_bytes()
    foreign.unlink()
    source.write_bytes(KEY)
    left.write_bytes(copy)
    left.chmod(0o600)
    assert prepare_logged(engine, source, folder) == (["fold_checkpoint_removed"], expected)


def test_prepare__no_room_for_a_checkpoint__folds_without(
    engine: Engine, source: Path, folder: Path, expected: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2**28))
    assert prepare_logged(engine, source, folder) == (["fold_checkpoint_not_saved"], expected)


def test_prepare__disk_filled_before_the_checkpoint_is_reserved__folds_without(
    engine: Engine, source: Path, folder: Path, expected: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve, calls = os.posix_fallocate, []

    def second_fails(descriptor: int, offset: int, size: int) -> None:
        calls.append(size)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        reserve(descriptor, offset, size)

    monkeypatch.setattr(os, "posix_fallocate", second_fails)
    assert prepare_logged(engine, source, folder) == (["fold_checkpoint_not_saved"], expected)


def test_prepare__checkpoint_in_use_by_another_process__is_left_alone(
    engine: Engine, source: Path, folder: Path
) -> None:
    left = stopped(engine, source, folder)
    before, cancel = left.read_bytes(), CancelFlag()
    with left.open("rb") as file:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX)
        with capture_logs() as lines, pytest.raises(Cancelled):
            prepared_keys.prepare(engine, source, folder, fold=True, check=lambda _: cancel.raise_flag(), cancel=cancel)
    assert events(lines) == ["fold_checkpoint_not_saved"]
    assert left.read_bytes() == before


def test_prepare__folded_in_less_than_the_interval__keeps_nothing(
    engine: Engine, source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold_checkpoint, "_INTERVAL_S", 3600)
    cancel = CancelFlag()
    with capture_logs() as lines, pytest.raises(Cancelled):
        prepared_keys.prepare(engine, source, folder, fold=True, check=lambda _: cancel.raise_flag(), cancel=cancel)
    assert events(lines) == []
    assert all_but_notes(folder) == []


def test_prepare__plain_form_between__leaves_the_checkpoint_to_the_next_folding(
    engine: Engine, source: Path, folder: Path, expected: bytes
) -> None:
    stopped(engine, source, folder)
    assert prepared_keys.prepare(engine, source, folder)
    assert len(all_but_notes(folder)) == 2
    assert prepare_logged(engine, source, folder) == (["fold_resumed"], expected)


def test_remains__of_a_stopped_folding__are_reported_unless_a_process_is_at_them(
    engine: Engine, source: Path, folder: Path
) -> None:
    left = stopped(engine, source, folder)
    assert fold_checkpoint.abandoned_checkpoints(folder) == [left]
    with left.open("rb") as file:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX)
        assert fold_checkpoint.abandoned_checkpoints(folder) == []


def test_keys_prepare__next_to_what_a_folding_of_a_key_that_is_gone_has_left__names_it(
    engine: Engine, source: Path, folder: Path
) -> None:
    left = stopped(engine, source, folder)
    other = source.rename(source.with_name("other.key"))
    words = [str(PROVER), "keys", "prepare", "--no-fold", str(other), "--prepared-dir", str(folder)]
    answer = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert (answer.returncode, answer.stdout) == (0, "1 keys prepared, 0 already present\n"), answer.stderr
    assert f"{left} is the checkpoint of a stopped folding" in answer.stderr
    assert "delete the file" in answer.stderr
    assert left.exists()


def test_prepare__folded_key_there_already__removes_what_was_left(engine: Engine, source: Path, folder: Path) -> None:
    left = stopped(engine, source, folder)
    copy = left.read_bytes()
    prepared_keys.prepare(engine, source, folder, fold=True)
    left.write_bytes(copy)
    assert not prepared_keys.prepare(engine, source, folder, fold=True)
    assert not left.exists()


def test_prepare__key_that_cannot_be_folded__leaves_nothing(
    engine: Engine, source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(engine, source, folder)

    def refuse(*_: object, **__: object) -> None:
        raise UnsupportedKey("a base would be infinity")

    monkeypatch.setattr(prepared_keys, "write_prepared", refuse)
    with pytest.raises(UnsupportedKey):
        prepared_keys.prepare(engine, source, folder, fold=True)
    assert all_but_notes(folder) == []
