"""Folding that is stopped and continued: the same bytes from every state, whatever a checkpoint holds."""

from __future__ import annotations

import itertools
import mmap
from collections.abc import Iterator

import pytest
from fold_checkpoints import (
    DATA_BYTES_AT,
    POINTS_AT,
    RUN_AT,
    WORK_LIST_AT,
    Checkpoint,
    inclusion_key,
    stop_after_next_state,
)
from golden_vectors import load
from prepared_file import in_memory

from prover.errors import Cancelled, KernelMisused
from prover.kernel.cancellation import CancelFlag, Progress
from prover.kernel.engine import Backend, Engine, LoadedKey
from prover.kernel.prepared import (
    FoldCheckpoint,
    fold_checkpoint_bytes,
    fold_checkpoint_permille,
    prepared_bytes,
    write_prepared,
)

TINY = bytes.fromhex(load("gnark/tiny.json")["key_v0_14_hex"])
DIGEST = bytes(range(32))
OTHER_DIGEST = bytes(32)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine(threads=3) as engine:
        yield engine


@pytest.fixture(scope="module")
def single(engine: Engine) -> Iterator[Engine]:
    """One thread of the same arithmetic."""
    with Engine(threads=1, backend=Backend[engine.backend.upper()]) as single:
        yield single


@pytest.fixture(scope="module")
def sources(engine: Engine) -> dict[str, bytes]:
    """Keys whose quotient is evaluated on the whole coset (512 points), and at 736 of 1,024 points in four parts."""
    return {"tiny": TINY, "whole": inclusion_key(engine, 1), "pruned": inclusion_key(engine, 2)}


def folded(
    engine: Engine,
    key: LoadedKey,
    data: mmap.mmap | None = None,
    cancel: CancelFlag | None = None,
    interval_s: float = 0.0,
    progress: Progress | None = None,
) -> bytes:
    out = in_memory(bytes(prepared_bytes(key, fold=True)))
    checkpoint = None if data is None else FoldCheckpoint(data, interval_s)
    counter = progress or Progress()
    write_prepared(engine, key, out, DIGEST, counter, cancel or CancelFlag(), fold=True, checkpoint=checkpoint)
    return out[:]


def empty(key: LoadedKey) -> mmap.mmap:
    return mmap.mmap(-1, fold_checkpoint_bytes(key))


def stopped(engine: Engine, key: LoadedKey, states: int) -> mmap.mmap:
    """Return a checkpoint after so many states."""
    data = empty(key)
    for _ in range(states):
        with pytest.raises(Cancelled):
            folded(engine, key, data, stop_after_next_state(data))
    assert Checkpoint(data).newest() == states
    return data


@pytest.fixture
def tiny(engine: Engine) -> Iterator[LoadedKey]:
    with engine.load_key(TINY) as key:
        yield key


@pytest.mark.parametrize("name", ["tiny", "whole", "pruned"])
def test_fold__stopped_after_every_state__ends_with_the_bytes_of_one_that_was_not(
    engine: Engine, single: Engine, sources: dict[str, bytes], name: str
) -> None:
    """Each run adds one state to what the one before left, on one thread and on three by turns."""
    with engine.load_key(sources[name]) as key, single.load_key(sources[name]) as same:
        expected = folded(engine, key)
        data, reached, result = empty(key), [0], b""
        turns = itertools.cycle(((engine, key), (single, same)))
        while not result:
            try:
                result = folded(*next(turns), data, stop_after_next_state(data))
            except Cancelled:
                assert Checkpoint(data).newest() == len(reached)
                reached.append(fold_checkpoint_permille(key, data, DIGEST) or 0)
    assert result == expected
    assert reached == sorted(reached)
    assert len(reached) > {"tiny": 10, "whole": 20, "pruned": 200}[name]
    assert reached[-1] > 800


def test_fold__continued__counts_from_where_it_stood(engine: Engine, sources: dict[str, bytes]) -> None:
    with engine.load_key(sources["pruned"]) as key:
        data, progress = stopped(engine, key, 60), Progress()
        permille = fold_checkpoint_permille(key, data, DIGEST)
        with pytest.raises(Cancelled):
            folded(engine, key, data, stop_after_next_state(data), progress=progress)
        assert permille is not None
        assert 100 < permille <= progress.permille < 1000
        whole = Progress()
        folded(engine, key, data, progress=whole)
    assert whole.permille == 1000


def test_fold__done_before_a_state_is_due__leaves_none(engine: Engine, tiny: LoadedKey) -> None:
    data = empty(tiny)
    assert folded(engine, tiny, data, interval_s=3600.0) == folded(engine, tiny)
    assert not any(data[:])
    assert fold_checkpoint_permille(tiny, data, DIGEST) is None


def test_fold__newest_state_torn__continues_from_the_one_before(engine: Engine, tiny: LoadedKey) -> None:
    data = stopped(engine, tiny, 6)
    Checkpoint(data).flip(6, POINTS_AT + 3)
    with pytest.raises(Cancelled):
        folded(engine, tiny, data, stop_after_next_state(data, 6))
    assert Checkpoint(data).newest() == 6  # written again, after 5
    assert folded(engine, tiny, data) == folded(engine, tiny)


@pytest.mark.parametrize("at", [0, 8, 20, 24, 40, RUN_AT, DATA_BYTES_AT, POINTS_AT])
def test_fold__both_states_torn__starts_again(engine: Engine, tiny: LoadedKey, at: int) -> None:
    data = stopped(engine, tiny, 6)
    for generation in (5, 6):
        Checkpoint(data).flip(generation, at)
    assert fold_checkpoint_permille(tiny, data, DIGEST) is None
    assert folded(engine, tiny, data) == folded(engine, tiny)


@pytest.mark.parametrize(
    ("at", "value"), [(RUN_AT, 2**40), (WORK_LIST_AT, 2**58 + 1), (WORK_LIST_AT, 1), (DATA_BYTES_AT, 2**63)]
)
def test_fold__sealed_states_that_cannot_be__starts_again(engine: Engine, tiny: LoadedKey, at: int, value: int) -> None:
    data = stopped(engine, tiny, 6)
    for generation in (5, 6):
        Checkpoint(data).seal(generation, at, value)
    assert folded(engine, tiny, data) == folded(engine, tiny)


def test_fold__state_of_another_source_or_key__is_not_taken(
    engine: Engine, tiny: LoadedKey, sources: dict[str, bytes]
) -> None:
    data = stopped(engine, tiny, 6)
    assert fold_checkpoint_permille(tiny, data, DIGEST) is not None
    assert fold_checkpoint_permille(tiny, data, OTHER_DIGEST) is None
    with engine.load_key(sources["whole"]) as key:
        larger = empty(key)
        larger[: len(data) // 2] = data[: len(data) // 2]
        assert fold_checkpoint_permille(key, larger, DIGEST) is None
        assert folded(engine, key, larger) == folded(engine, key)


def test_fold__checkpoint_of_a_wrong_size__is_refused(engine: Engine, tiny: LoadedKey) -> None:
    with pytest.raises(KernelMisused, match="of a checkpoint"):
        folded(engine, tiny, mmap.mmap(-1, fold_checkpoint_bytes(tiny) - 1))
