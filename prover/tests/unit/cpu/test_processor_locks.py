"""Provers that count each other by locks: shares and their bound, processes that are killed, unsafe folders."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prover.cpu import cpu_locks as processor_locks
from prover.cpu.cpu_count import CpuPool, cpu_pool
from prover.cpu.cpu_locks import CpuLocks, Prover, share_of

HOLD = """
import sys
from pathlib import Path
from prover.cpu.cpu_locks import CpuLocks
locks = CpuLocks(Path(sys.argv[1]))
locks.take(1024)
print("held", flush=True)
sys.stdin.read()
locks.close()
"""
PATIENCE_S = 60
FOUR = frozenset(range(4))

fleets = st.lists(
    st.tuples(st.integers(1, 12), st.frozensets(st.integers(0, 11), min_size=1)), min_size=1, max_size=8
).map(lambda fleet: {5 * row: Prover(min(most, len(mask)), mask) for row, (most, mask) in enumerate(fleet)})
"""Provers with no more threads than processors, by rows."""


@given(provers=fleets)
def test_shares__of_any_provers__sum_to_no_more_than_the_processors_and_all_provers_but_one(
    provers: dict[int, Prover],
) -> None:
    shares = {row: share_of(row, provers) for row in provers}
    processors = frozenset().union(*(prover.cpus for prover in provers.values()))
    assert sum(shares.values()) <= len(processors) + len(provers) - 1
    assert all(1 <= share <= provers[row].threads for row, share in shares.items())


@given(
    count=st.integers(1, 40),
    most=st.lists(st.integers(1, 40), min_size=1, max_size=12),
)
def test_shares__on_the_same_processors__use_all_of_them_and_differ_by_one_at_most(count: int, most: list[int]) -> None:
    mask = frozenset(range(0, 3 * count, 3))
    provers = {row: Prover(min(limit, count), mask) for row, limit in enumerate(most)}
    shares = [share_of(row, provers) for row in provers]
    wanted = sum(prover.threads for prover in provers.values())
    assert sum(shares) == max(min(count, wanted), len(provers))
    free = [share for row, share in enumerate(shares) if share < provers[row].threads]
    assert max(free, default=0) - min(free, default=0) <= 1
    assert all(share <= min(free, default=share) + 1 for share in shares)


@pytest.mark.parametrize(
    ("others", "share"),
    [
        ({}, 4),
        ({1: Prover(4, FOUR)}, 2),
        ({1: Prover(1, FOUR)}, 3),
        ({1: Prover(4, frozenset({4, 5, 6, 7}))}, 4),
        ({1: Prover(2, frozenset({0, 9}))}, 4),
        ({1: Prover(4, FOUR), 2: Prover(4, FOUR)}, 2),
        ({row: Prover(4, FOUR) for row in range(1, 9)}, 1),
    ],
    ids=["alone", "same", "small", "apart", "half-apart", "two", "many"],
)
def test_share__of_the_first_of_some__is_its_part(others: dict[int, Prover], share: int) -> None:
    assert share_of(0, {0: Prover(4, FOUR)} | others) == share


@pytest.fixture
def four(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor_locks, "cpu_pool", lambda: CpuPool("processors", FOUR))


@contextmanager
def holding(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds locks."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=kept
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def await_share(locks: CpuLocks, share: int | None) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while locks.share() != share:
        assert time.monotonic() < deadline, f"{locks.share()} is not {share}"
        time.sleep(0.01)


def test_processes__that_hold_locks_and_are_killed__count_while_they_live(tmp_path: Path) -> None:
    processors = len(cpu_pool().cpus)
    with closing(CpuLocks(tmp_path)) as locks, ExitStack() as others:
        locks.take(1024)
        assert locks.share() is None
        processes = [others.enter_context(holding(tmp_path)) for _ in range(3)]
        assert locks.share() == max(1, -(-processors // 4))
        for left, process in zip((2, 1), processes, strict=False):
            process.kill()
            process.wait()
            await_share(locks, max(1, -(-processors // (left + 1))))
        assert processes[2].communicate("")[0] == ""
        await_share(locks, None)


def test_holders__of_one_process__count_each_other_while_they_hold(tmp_path: Path, four: None) -> None:
    with closing(CpuLocks(tmp_path)) as first, closing(CpuLocks(tmp_path)) as second:
        first.take(4)
        assert first.share() is None
        second.take(4)
        assert (first.share(), second.share()) == (2, 2)
        first.give_back()
        assert second.share() is None
        first.take(1)
        assert (first.share(), second.share()) == (1, 3)
        second.close()
        assert first.share() is None


def test_holders__with_masks_of_many_pieces__count_by_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    masks = [frozenset({0, 1, 4, 5, 6, 7}), frozenset({1, 5, 7, 40}), frozenset({2, 3}), frozenset({4})]
    with ExitStack() as stack:
        holders = []
        for mask in masks:
            monkeypatch.setattr(processor_locks, "cpu_pool", lambda mask=mask: CpuPool("processors", mask))
            holders.append(stack.enter_context(closing(CpuLocks(tmp_path))))
            holders[-1].take(len(mask))
        everyone = {row: Prover(len(mask), mask) for row, mask in enumerate(masks)}
        expected = [None if row == 2 else share_of(row, everyone) for row in everyone]
        assert [holder.share() for holder in holders] == expected == [5, 2, None, 1]


def test_holders__under_other_quotas__do_not_count_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as stack:
        for name in ("quota-1-2", "quota-1-3", "processors"):
            monkeypatch.setattr(processor_locks, "cpu_pool", lambda name=name: CpuPool(name, FOUR))
            holder = stack.enter_context(closing(CpuLocks(tmp_path)))
            holder.take(4)
            assert holder.share() is None


def test_lock_file__removed_by_somebody__is_made_again(tmp_path: Path, four: None) -> None:
    with closing(CpuLocks(tmp_path)) as first:
        first.take(4)
        first.give_back()
        for path in tmp_path.rglob("processors"):
            path.unlink()
        with closing(CpuLocks(tmp_path)) as second:
            second.take(4)
            first.take(4)
            assert (first.share(), second.share()) == (2, 2)


def folder_in(parent: Path) -> Path:
    return parent / f"prover-processors-{os.geteuid()}"


def test_folder__made__is_closed_to_others_and_empty_files_remain(tmp_path: Path) -> None:
    with closing(CpuLocks(tmp_path)) as locks:
        locks.take(4)
    folder = folder_in(tmp_path)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_size for path in folder.iterdir()] == [0]


def test_folder__that_is_a_link__is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder_in(tmp_path).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="prover-processors"):
        CpuLocks(tmp_path)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_lock_file__that_is_a_link__is_refused(tmp_path: Path) -> None:
    folder_in(tmp_path).mkdir(mode=0o700)
    (folder_in(tmp_path) / cpu_pool().name).symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="symbolic link"):
        CpuLocks(tmp_path)
    assert not (tmp_path / "target").exists()


def test_folder__open_to_others__is_refused(tmp_path: Path) -> None:
    folder_in(tmp_path).mkdir()
    folder_in(tmp_path).chmod(0o770)
    with pytest.raises(PermissionError, match="is open to others"):
        CpuLocks(tmp_path)


def test_folder__below_nothing__is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        CpuLocks(tmp_path / "absent")
