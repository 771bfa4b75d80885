"""Prepared keys of a running prover: made in the background, passed over where that cannot be."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from prepared_file import all_but_notes
from prepared_folders import (
    DEADLINE_S,
    OTHER,
    PLAIN,
    another_process,
    has,
    header_word,
    left_of_killed,
    prepare_after_load,
    prepare_in_background,
    replace,
    wait_until,
)
from structlog.testing import capture_logs

from prover.kernel.engine import Engine
from prover.keys.prepared import prepared_keys
from prover.keys.prepared.preparation import PreparedKeys


@pytest.fixture
def engine(portable_engine: Engine) -> Engine:
    return portable_engine


def test_prepared_keys__after_the_first_load__have_it_for_the_second(
    engine: Engine, source: Path, folder: Path
) -> None:
    keys = PreparedKeys(folder)
    assert not has(engine, source, folder)
    key, origin = prepared_keys.load_with_origin(engine, source)
    with key:
        assert not key.info.mapped_bytes
        keys.prepare_later(engine, key, origin, source)
        wait_until(lambda: has(engine, source, folder))
    again = keys.map(engine, source)
    assert again is not None
    with again:
        assert again.info.mapped_bytes
    keys.close()
    assert len(all_but_notes(folder)) == 1


def test_prepared_keys__source_replaced_after_the_load__are_not_stamped_with_it(
    engine: Engine, source: Path, folder: Path
) -> None:
    keys = PreparedKeys(folder)
    key, origin = prepared_keys.load_with_origin(engine, source)
    with key:
        replace(source, OTHER)
        keys.prepare_later(engine, key, origin, source)
        wait_until(lambda: has(engine, source, folder))
    keys.close()
    assert header_word(engine, source, folder) == (False, 7)


def test_prepared_keys__in_an_unusable_folder__warn_once(engine: Engine, source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a-file"
    folder.write_text("")
    keys = PreparedKeys(folder)
    with capture_logs() as lines:
        for _ in range(3):
            prepare_after_load(keys, engine, source)
    keys.close()
    warnings = [line for line in lines if line["event"] == "key_not_prepared"]
    assert len(warnings) == 1
    assert "PROVER_KEYS__PREPARED_DIRECTORY" in warnings[0]["remedy"]


def test_prepared_keys__on_a_disk_that_is_nearly_full__leave_it_alone(
    engine: Engine, source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = 2**28
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    with capture_logs() as lines:
        prepare_in_background(engine, source, folder)
    assert "free some space" in next(line["error"] for line in lines if line["event"] == "key_not_prepared")
    assert list(folder.iterdir()) == []
    assert prepared_keys.prepare(engine, source, folder)  # asked for, it may


def test_prepared_keys__key_closed_before_it_is_written__is_passed_over(
    engine: Engine, source: Path, folder: Path
) -> None:
    keys = PreparedKeys(folder)
    with capture_logs() as lines:
        key, origin = prepared_keys.load_with_origin(engine, source)
        key.close()
        keys.prepare_later(engine, key, origin, source)
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
        first, first_origin = prepared_keys.load_with_origin(engine, source)
        next_one, next_origin = prepared_keys.load_with_origin(engine, second)
        with first, next_one:
            keys.prepare_later(engine, first, first_origin, source)
            keys.prepare_later(engine, next_one, next_origin, second)
            wait_until(lambda: has(engine, second, folder))
            assert not has(engine, source, folder)
        other.communicate("\n", timeout=DEADLINE_S)
    keys.close()
    assert header_word(engine, source, folder) == (True, PLAIN)


def test_prepared_keys__after_an_unexpected_error__end_the_preparation_and_prepare_the_next(
    engine: Engine, source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second, keys = source.with_name("second.key"), PreparedKeys(folder)
    ends: list[Path] = []
    second.write_bytes(OTHER)
    with capture_logs() as lines:
        with monkeypatch.context() as patched:
            patched.setattr(prepared_keys, "prepare_loaded", out_of_memory)
            prepare_after_load(keys, engine, source, lambda: ends.append(source))
        prepare_after_load(keys, engine, second, lambda: ends.append(second))
    keys.close()
    assert ends == [source, second]
    assert has(engine, second, folder)
    assert [line["event"] for line in lines if line["log_level"] == "error"] == ["unexpected_error"]


def test_prepared_keys__after_an_unexpected_error_at_the_end_of_one__prepare_the_next(
    engine: Engine, source: Path, folder: Path
) -> None:
    second, keys = source.with_name("second.key"), PreparedKeys(folder)
    second.write_bytes(OTHER)
    with capture_logs() as lines:
        prepare_after_load(keys, engine, source, out_of_memory)
        prepare_after_load(keys, engine, second)
    keys.close()
    assert has(engine, source, folder)
    assert has(engine, second, folder)
    assert [line["event"] for line in lines if line["log_level"] == "error"] == ["unexpected_error"]


def test_prepared_keys__no_thread_for_one__prepare_the_next(
    engine: Engine, source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = PreparedKeys(folder)
    key, origin = prepared_keys.load_with_origin(engine, source)
    with key:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", no_thread)
            assert not keys.prepare_later(engine, key, origin, source)
        assert keys.prepare_later(engine, key, origin, source)
        wait_until(lambda: has(engine, source, folder))
    keys.close()


def no_thread(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def out_of_memory(*_: object) -> None:
    raise MemoryError


def test_prepared_keys__closed__take_no_more_orders(engine: Engine, source: Path, folder: Path) -> None:
    keys = PreparedKeys(folder)
    key, origin = prepared_keys.load_with_origin(engine, source)
    keys.close()
    keys.prepare_later(engine, key, origin, source)
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
        prepare_after_load(keys, engine, source)
    keys.close()
    assert has(engine, source, folder)


def test_prepared_keys__after_one_was_killed__measure_the_disk_without_what_it_left(
    engine: Engine, source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = left_of_killed(engine, source, folder)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0 if left.exists() else 2**40))
    prepare_in_background(engine, source, folder)
    assert all_but_notes(folder) == [prepared_keys.path_of(engine, source, folder)]
