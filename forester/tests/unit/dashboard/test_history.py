"""Samples of the journal, and the curves of them: bounded in age and number, right after clocks that jump."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from network_states import network

from forester.dashboard.history import STEP_MINUTES, Sampler, columns
from forester.journal.database import Journal
from forester.journal.samples import KEPT_MINUTES, MINUTE_S, Sample, SampleStore
from forester.journal.spending import SpendingStore
from forester.network_status.snapshot import SnapshotKeeper
from forester.network_status.state import NetworkState
from forester.observability.health import HealthBoard
from forester.observability.metrics import Metrics

START = 28_000_000
POINTS = KEPT_MINUTES // STEP_MINUTES


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    async with await Journal.open(tmp_path / "journal.sqlite") as opened:
        yield opened


def returning(state: NetworkState) -> Callable[[], Awaitable[NetworkState]]:
    async def read() -> NetworkState:
        return state

    return read


async def test_store__three_days_of_minutes__keeps_one(journal: Journal) -> None:
    store = SampleStore(journal)
    kept: list[Sample] = []
    for minute in range(START, START + 3 * KEPT_MINUTES, 60):
        kept = await store.add(Sample(minute, 1, 2, 3, 4))
    assert kept[0].minute >= START + 2 * KEPT_MINUTES - 60
    assert len(kept) == KEPT_MINUTES // 60 + 1
    again = await store.recent(START + 3 * KEPT_MINUTES + 10 * KEPT_MINUTES)
    assert again == []


async def test_store__same_minute_twice__adds_counts_and_keeps_the_last_level(journal: Journal) -> None:
    store = SampleStore(journal)
    await store.add(Sample(START, 10, 2, 30, 500))
    assert await store.add(Sample(START, 7, 1, 5, None)) == [Sample(START, 7, 3, 35, None)]


async def test_store__clock_set_back__drops_the_minutes_after_it(journal: Journal) -> None:
    store = SampleStore(journal)
    await store.add(Sample(START + 500, 1, 1, 1, 1))
    assert await store.add(Sample(START, 2, 2, 2, 2)) == [Sample(START, 2, 2, 2, 2)]


async def test_sampler__work_between_samples__is_counted_once(journal: Journal) -> None:
    metrics, now = Metrics(), [START * 60.0]
    keeper = SnapshotKeeper(returning(network()), metrics, HealthBoard())
    sampler = Sampler(SampleStore(journal), metrics, keeper, lambda: 77, clock=lambda: now[0])
    assert sampler.history is None
    metrics.proofs_made.labels("append").inc(3)
    await sampler.sample()
    assert await keeper.refresh()
    now[0] += MINUTE_S
    metrics.proofs_made.labels("update").inc(2)
    metrics.count_processed(1, 20, 1.0)
    await sampler.sample()
    now[0] += MINUTE_S
    await sampler.sample()
    backlog = sum(count for item in network().trees for count in item.pending.values())
    assert await SampleStore(journal).recent(START + 2) == [
        Sample(START, None, 3, 0, 77),
        Sample(START + 1, backlog, 2, 20, 77),
        Sample(START + 2, backlog, 0, 0, 77),
    ]
    history = sampler.history
    assert history is not None
    assert sum(value or 0 for value in history.proofs) == 5
    assert history.backlog[-1] == backlog


async def test_sampler__restarted__shows_what_is_stored_and_counts_from_zero(journal: Journal) -> None:
    await SampleStore(journal).add(Sample(START - 30, 5, 6, 7, 8))
    metrics = Metrics()
    keeper = SnapshotKeeper(returning(network()), metrics, HealthBoard())
    sampler = Sampler(SampleStore(journal), metrics, keeper, lambda: None, clock=lambda: START * 60.0)
    await sampler.sample()
    assert sampler.history is not None
    assert [value for value in sampler.history.proofs if value is not None] == [6, 0]


def test_columns__a_day_of_minutes__are_points_with_sums_and_last_levels() -> None:
    minute = START // STEP_MINUTES * STEP_MINUTES + 4
    samples = [Sample(minute - at, at, 1, 10, 1000 - at) for at in range(KEPT_MINUTES, -1, -1)]
    found = columns(samples, minute)
    assert len(found.backlog) == len(found.proofs) == POINTS
    assert found.began + found.step_s * POINTS == (minute + 1) * MINUTE_S
    assert set(found.proofs) == {STEP_MINUTES}
    assert (found.backlog[-1], found.lamports[-1], found.backlog[0]) == (0, 1000, KEPT_MINUTES - STEP_MINUTES)


def test_columns__no_samples__are_gaps() -> None:
    assert set(columns([], START).backlog) == {None}


async def test_spending__by_purpose__sums_to_the_window_and_survives_a_clock_set_back(journal: Journal) -> None:
    store, now = SpendingStore(journal), START * 60.0
    for lamports, purpose in ((5, "register"), (7, "v2_batches"), (5, "register")):
        assert (await store.reserve(lamports, maximum=100, now=now, purpose=purpose))[0]
    assert await store.within_window(now) == {"register": 10, "v2_batches": 7}
    assert await store.within_window(now - 500) == {"register": 10, "v2_batches": 7}
    fits, spent = await store.reserve(90, maximum=100, now=now - 500, purpose="report")
    assert (fits, spent) == (False, 17)
    assert await store.within_window(now + 3700) == {}


async def test_journal__of_the_release_before__keeps_its_spending(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    async with await Journal.open(path) as journal:
        await journal.run(
            lambda connection: [
                connection.execute(statement)
                for statement in (
                    "DROP TABLE samples",
                    "DROP TABLE spending",
                    "CREATE TABLE spending (minute INTEGER PRIMARY KEY, lamports INTEGER NOT NULL)",
                    "INSERT INTO spending VALUES (28000000, 123)",
                    "PRAGMA user_version = 5",
                )
            ]
        )
    async with await Journal.open(path) as journal:
        assert await SpendingStore(journal).within_window(START * 60.0) == {"unknown": 123}
        assert await SampleStore(journal).recent(START) == []
