"""An engine that keeps to its share of the CPUs: proofs stay the same, and no failure ends one."""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from golden_vectors import load

from prover.cpu import cpu_locks as processor_locks
from prover.cpu.cpu_count import CpuPool
from prover.cpu.cpu_locks import CpuLocks
from prover.kernel.engine import Engine
from prover.kernel.thread_share import ThreadShare

TINY = load("gnark/tiny.json")
KEY = bytes.fromhex(TINY["key_v0_14_hex"])
CASE: dict[str, Any] = TINY["cases"]["z6"]
FOUR = frozenset(range(4))
PATIENCE_S = 60


def scalars(texts: list[str]) -> bytes:
    return b"".join(int(text, 16).to_bytes(32, "big") for text in texts)


INPUTS = scalars(CASE["public"]) + scalars(CASE["secret"])
BLINDING = (scalars([CASE["r"]]), scalars([CASE["s"]]))
POINTS = scalars([*CASE["proof"]["ar"], *CASE["proof"]["bs"][0], *CASE["proof"]["bs"][1], *CASE["proof"]["krs"]])


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture(autouse=True)
def four_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor_locks, "cpu_pool", lambda: CpuPool("processors", FOUR))


@pytest.fixture
def rival(tmp_path: Path) -> Iterator[CpuLocks]:
    with closing(CpuLocks(tmp_path)) as locks:
        yield locks


def test_share__while_another_proves__follows_it_during_a_proof(tmp_path: Path, rival: CpuLocks) -> None:
    told: list[int | None] = []
    with closing(ThreadShare(CpuLocks(tmp_path), 4, told.append)) as share:
        with share.proving():
            assert told == []
            rival.take(4)
            until(lambda: told == [2])
            rival.give_back()
            until(lambda: told == [2, None])
            rival.take(1)
            until(lambda: told == [2, None, 3])
            assert rival.share() == 1
        assert rival.share() is None
        until(lambda: told == [2, None, 3, None])  # idle, so that other work has all threads


def test_share__of_several_proofs__is_held_until_the_last_ends(tmp_path: Path, rival: CpuLocks) -> None:
    told: list[int | None] = []
    rival.take(4)
    with closing(ThreadShare(CpuLocks(tmp_path), 4, told.append)) as share:
        with share.proving():
            assert told == [2]
            with share.proving():
                assert rival.share() == 2
            assert rival.share() == 2
        assert rival.share() is None
        with share.proving():
            assert rival.share() == 2


def test_share__closed_under_a_proof__lets_it_go_on(tmp_path: Path, rival: CpuLocks) -> None:
    told: list[int | None] = []
    rival.take(4)
    share = ThreadShare(CpuLocks(tmp_path), 4, told.append)
    with share.proving():
        share.close()
        share.close()
        assert told == [2, None]
        assert rival.share() is None
    with share.proving():
        pass
    assert told == [2, None]


def test_share__where_the_system_has_no_such_locks__is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("Function not implemented")

    told: list[int | None] = []
    with closing(ThreadShare(CpuLocks(tmp_path), 4, told.append)) as share:
        with share.proving():
            monkeypatch.setattr(fcntl, "fcntl", refuse)
        with share.proving():
            pass
    assert told == []
    assert not [thread for thread in threading.enumerate() if thread.name == "thread-share"]


def test_engine__beside_another_prover__tells_its_share_and_makes_the_same_proof(
    tmp_path: Path, rival: CpuLocks
) -> None:
    told: list[int] = []
    with (
        Engine(threads=4, locks=CpuLocks(tmp_path), on_active=told.append) as engine,
        engine.load_key(KEY) as key,
    ):
        assert key.prove(INPUTS, blinding=BLINDING).points == POINTS
        assert told == [4]
        rival.take(4)
        assert key.prove(INPUTS, blinding=BLINDING).points == POINTS
        assert told[:2] == [4, 2]
    assert told[-1] == 4


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 7])
def test_engine__under_a_limit__makes_the_same_proof(limit: int) -> None:
    with Engine(threads=4) as engine, engine.load_key(KEY) as key:
        engine.limit_threads(limit)
        with ThreadPoolExecutor(3) as callers:
            made = [callers.submit(key.prove, INPUTS, blinding=BLINDING) for _ in range(6)]
            assert {one.result().points for one in made} == {POINTS}
