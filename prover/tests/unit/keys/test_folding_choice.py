"""Choice of the prepared keys that are folded: on request, against it, and by default. On the tiny key."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prepared_file import all_but_notes

from prover.errors import Cancelled, DiskFull, MemoryBudgetExceeded, UnsupportedKey
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine
from prover.kernel.prepared import write_prepared
from prover.keys.prepared import folding, prepared_keys, table_room
from prover.keys.prepared.folding import PreparationOutcome

WRITE: Any = write_prepared
NATIVE = Path(__file__).resolve().parents[3] / "native" / "src"
KERNEL_COUNT = """
#include <stdio.h>
#include "key/fold_shape.h"
int main(void) {
    unsigned constraints, log2;
    while (scanf("%u %u", &constraints, &log2) == 2) {
        const fold_shape shape = fold_shape_for(constraints, log2);
        printf("%llu\\n", (unsigned long long)fold_work(&shape, log2));
    }
    return 0;
}
"""


@pytest.fixture
def engine(portable_engine: Engine) -> Engine:
    return portable_engine


def test_multiplications__of_any_shape__are_the_kernel_s(tmp_path: Path) -> None:
    counts = (
        {1 << log2 for log2 in range(2, 24)} | {3 << log2 for log2 in range(1, 22)} | {31 << log2 for log2 in range(18)}
    )
    counts = {count + offset for count in counts for offset in (-1, 0, 1)} | {8_019, 10_701, 18_959, 158_150, 403_110}
    shapes = [(count, (count - 1).bit_length()) for count in sorted(counts) if count > 2]
    binary = tmp_path / "count"
    words = ["cc", "-I", str(NATIVE), "-o", str(binary), "-x", "c", "-"]
    subprocess.run(words, input=KERNEL_COUNT, text=True, check=True)
    given = "".join(f"{constraints} {log2}\n" for constraints, log2 in shapes)
    answer = subprocess.run([str(binary)], input=given, capture_output=True, text=True, check=True)
    infos: list[Any] = [SimpleNamespace(constraints=count, domain_size=1 << log2) for count, log2 in shapes]
    assert [folding.multiplications(info) for info in infos] == [int(line) for line in answer.stdout.split()]


def form(engine: Engine, source: Path, folder: Path) -> tuple[bool, bool]:
    """Return whether the prepared key is folded, and whether it has tables."""
    key = prepared_keys.open_existing(engine, source, folder)
    assert key is not None
    with key:
        return key.info.fold_bytes > 0, key.info.table_bytes > 0


@pytest.mark.parametrize(("fold", "folded"), [(None, True), (True, True), (False, False)])
def test_prepare__key_with_no_prepared_key__is_folded_as_asked_and_where_nobody_says(
    engine: Engine, source: Path, folder: Path, fold: bool | None, folded: bool
) -> None:
    assert folding.prepare(engine, source, folder, fold=fold) == PreparationOutcome(was_made=True)
    assert form(engine, source, folder) == (folded, False)
    assert folding.prepare(engine, source, folder, fold=fold) == PreparationOutcome(was_made=False)
    assert all_but_notes(folder) == [prepared_keys.path_of(engine, source, folder)]


def test_prepare__plain_and_folded_keys_there__change_as_asked(engine: Engine, source: Path, folder: Path) -> None:
    steps: list[tuple[dict[str, Any], bool, bool]] = [
        ({"fold": False}, True, False),
        ({"fold": False}, False, False),
        ({"fold": None}, True, True),
        ({"fold": None}, False, True),
        ({"fold": False}, False, True),
        ({"fold": None, "force": True}, True, True),
        ({"fold": False, "force": True}, True, False),
        ({"fold": True, "force": True}, True, True),
    ]
    found = [
        (options, folding.prepare(engine, source, folder, **options).was_made, form(engine, source, folder)[0])
        for options, *_ in steps
    ]
    assert found == steps


def test_prepare__key_that_takes_more_than_is_cheap__stays_plain_unless_asked_for(
    engine: Engine, source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with prepared_keys.load_source(engine, source) as key:
        count = folding.multiplications(key.info)
    monkeypatch.setattr(folding, "CHEAP_MULTIPLICATIONS", count - 1)
    for made in (True, False):
        outcome = folding.prepare(engine, source, folder, fold=None)
        assert outcome.was_made == made
        assert "--fold does it" in str(outcome.unfolded_reason)
        assert form(engine, source, folder) == (False, False)
    outcome = folding.prepare(engine, source, folder, fold=None, table_bytes=22_000)
    assert outcome.was_made
    assert form(engine, source, folder) == (False, True)
    assert folding.prepare(engine, source, folder, fold=False) == PreparationOutcome(was_made=False)
    assert folding.prepare(engine, source, folder, fold=True) == PreparationOutcome(was_made=True)
    for force in (False, True):
        assert folding.prepare(engine, source, folder, fold=None, force=force) == PreparationOutcome(was_made=force)
        assert form(engine, source, folder)[0]
    monkeypatch.setattr(folding, "CHEAP_MULTIPLICATIONS", count)
    assert folding.prepare(engine, source, folder, fold=False, force=True) == PreparationOutcome(was_made=True)
    assert folding.prepare(engine, source, folder, fold=None) == PreparationOutcome(was_made=True)


def test_prepare__plain_form_with_tables__has_them_when_it_is_folded(
    engine: Engine, source: Path, folder: Path
) -> None:
    folding.prepare(engine, source, folder, fold=False, table_bytes=22_000)
    assert form(engine, source, folder) == (False, True)
    assert folding.prepare(engine, source, folder, fold=None) == PreparationOutcome(was_made=True)
    assert form(engine, source, folder) == (True, True)
    assert folding.prepare(engine, source, folder, fold=None) == PreparationOutcome(was_made=False)
    assert folding.prepare(engine, source, folder, fold=None, force=True) == PreparationOutcome(was_made=True)
    assert form(engine, source, folder) == (True, False)


def test_prepare__room_for_tables_not_given__small_circuits_have_some(
    engine: Engine, source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with prepared_keys.load_source(engine, source) as key:
        constraints = key.info.constraints
    monkeypatch.setattr(table_room, "MOST_CONSTRAINTS", constraints - 1)
    assert folding.prepare(engine, source, folder, fold=None, table_bytes=None) == PreparationOutcome(was_made=True)
    assert form(engine, source, folder) == (True, False)
    monkeypatch.setattr(table_room, "MOST_CONSTRAINTS", constraints)
    for made in (True, False):
        assert folding.prepare(engine, source, folder, fold=None, table_bytes=None) == PreparationOutcome(was_made=made)
        assert form(engine, source, folder) == (True, True)
    assert folding.prepare(engine, source, folder, fold=None, table_bytes=0) == PreparationOutcome(was_made=False)
    assert folding.prepare(engine, source, folder, fold=None, table_bytes=0, force=True).was_made
    assert form(engine, source, folder) == (True, False)
    monkeypatch.setattr(table_room, "TABLE_BYTES", 0)
    assert folding.prepare(engine, source, folder, fold=False, table_bytes=None, force=True).was_made
    assert form(engine, source, folder) == (False, False)


def test_prepare__no_memory_for_folding__stays_plain_unless_asked_for(
    engine: Engine, source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared_keys, "memory_limit_bytes", lambda: 1)
    for made in (True, False):
        outcome = folding.prepare(engine, source, folder, fold=None)
        assert outcome.was_made == made
        assert "--no-fold" in str(outcome.unfolded_reason)
        assert form(engine, source, folder) == (False, False)
    with pytest.raises(MemoryBudgetExceeded):
        folding.prepare(engine, source, folder, fold=True)
    assert form(engine, source, folder) == (False, False)


def test_prepare__no_room_on_the_disk_for_the_folded_key__stays_plain_unless_asked_for(
    engine: Engine, source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folding.prepare(engine, source, folder, fold=False)
    plain_bytes = prepared_keys.path_of(engine, source, folder).stat().st_size
    reserve = os.posix_fallocate

    def has_room_for_plain_forms(descriptor: int, offset: int, size: int) -> None:
        if size > plain_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        reserve(descriptor, offset, size)

    monkeypatch.setattr(os, "posix_fallocate", has_room_for_plain_forms)
    for force in (False, True):
        outcome = folding.prepare(engine, source, folder, fold=None, force=force)
        assert outcome.was_made == force
        assert "No space left on device; free some space" in str(outcome.unfolded_reason)
        assert form(engine, source, folder) == (False, False)
    with pytest.raises(DiskFull):
        folding.prepare(engine, source, folder, fold=True)
    assert all_but_notes(folder) == [prepared_keys.path_of(engine, source, folder)]


def test_prepare__folded_key_there_and_no_memory_to_make_it_again__is_left_alone(
    engine: Engine, source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folding.prepare(engine, source, folder, fold=True)
    monkeypatch.setattr(prepared_keys, "memory_limit_bytes", lambda: 1)
    assert folding.prepare(engine, source, folder, fold=None) == PreparationOutcome(was_made=False)
    with pytest.raises(MemoryBudgetExceeded):
        folding.prepare(engine, source, folder, fold=None, force=True)
    assert form(engine, source, folder) == (True, False)


def failing_to_fold(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def write(*words: Any, **options: Any) -> None:
        if options["fold"]:
            raise error
        WRITE(*words, **options)

    monkeypatch.setattr(prepared_keys, "write_prepared", write)


def test_prepare__key_that_cannot_be_folded__stays_plain_unless_asked_for(
    engine: Engine, source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing_to_fold(monkeypatch, UnsupportedKey("a base would be infinity"))
    assert folding.prepare(engine, source, folder, fold=None) == PreparationOutcome(True, "a base would be infinity")
    assert form(engine, source, folder) == (False, False)
    with pytest.raises(UnsupportedKey):
        folding.prepare(engine, source, folder, fold=True)


@pytest.mark.parametrize("fold", [None, True])
def test_prepare__stopped_while_it_folds__leaves_the_plain_form(
    engine: Engine, source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, fold: bool | None
) -> None:
    """Which is there while a key is folded: a prover that starts then maps it."""
    cancel = CancelFlag()
    seen = []

    def write(*words: Any, **options: Any) -> None:
        if options["fold"]:
            seen.append(form(engine, source, folder))
            cancel.raise_flag()
        WRITE(*words, **options)

    monkeypatch.setattr(prepared_keys, "write_prepared", write)
    with pytest.raises(Cancelled):
        folding.prepare(engine, source, folder, fold=fold, cancel=cancel)
    assert seen == [(False, False)]
    assert form(engine, source, folder) == (False, False)
