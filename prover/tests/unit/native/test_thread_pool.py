"""The thread pool: each task once, dependencies kept, cancellation prompt, callers independent."""

from __future__ import annotations

from typing import Any

import cffi
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

CANCELLED = 3
NEVER = 2**32 - 1
SERIES_TASKS = 200

ffi = cffi.FFI()
ffi.cdef("""
int32_t t_pool_for(uint32_t threads, uint32_t count, uint32_t cancel_at, uint32_t *runs);
int32_t t_pool_run(uint32_t threads, uint32_t entries, const uint32_t *counts, const uint32_t *groups,
                   const uint32_t *after);
int32_t t_pool_share(uint32_t threads, uint32_t *shares);
int32_t t_pool_callers(uint32_t threads, uint32_t callers, uint32_t rounds);
int32_t t_pool_series(uint32_t threads, const uint32_t *series, uint32_t cancel_from, uint32_t *early);
""")


@pytest.mark.parametrize("threads", [0, 1, 2, 3, 8])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 500])
def test_pool_for__any_size__runs_each_index_once(hooks: Any, threads: int, count: int) -> None:
    runs = ffi.new("uint32_t[]", max(count, 1))
    assert hooks.t_pool_for(threads, count, NEVER, runs) == 0
    assert list(runs)[:count] == [1] * count


@pytest.mark.parametrize("threads", [0, 1, 2, 4])
def test_pool_for__cancelled_half_way__starts_nothing_more(hooks: Any, threads: int) -> None:
    count = 10_000
    runs = ffi.new("uint32_t[]", count)
    assert hooks.t_pool_for(threads, count, 20, runs) == CANCELLED
    started = sum(runs)
    # Tasks start in order; those in flight together with number 20 may still end, no later ones begin.
    assert 21 <= started <= 21 + 3 * threads + 200
    assert max(runs) == 1


@settings(max_examples=60, deadline=None)
@given(
    threads=st.sampled_from([1, 2, 3, 4, 16]),
    entries=st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 31), st.integers(0, 2**32 - 1)), min_size=1, max_size=40
    ),
)
def test_pool_run__random_dependencies__each_task_once_and_none_early(
    hooks: Any, threads: int, entries: list[tuple[int, int, int]]
) -> None:
    # Groups may wait for lower groups only, so there is no cycle.
    counts = ffi.new("uint32_t[]", [count for count, _, _ in entries])
    groups = ffi.new("uint32_t[]", [group for _, group, _ in entries])
    after = ffi.new("uint32_t[]", [mask & ((1 << group) - 1) for _, group, mask in entries])
    assert hooks.t_pool_run(threads, len(entries), counts, groups, after) == 0


@pytest.mark.parametrize(("threads", "beside_one"), [(1, 1), (2, 1), (3, 1), (16, 8), (48, 24)])
def test_pool_share__next_to_another_job__is_its_part(hooks: Any, threads: int, beside_one: int) -> None:
    shares = ffi.new("uint32_t[4]")
    assert hooks.t_pool_share(threads, shares) == 0
    assert list(shares) == [threads, beside_one, threads, threads]


@pytest.mark.parametrize(("threads", "callers"), [(1, 4), (2, 3), (4, 8)])
def test_pool__many_callers__jobs_stay_apart(hooks: Any, threads: int, callers: int) -> None:
    assert hooks.t_pool_callers(threads, callers, 50) == 0


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_pool_run__two_jobs_of_one_series__run_one_after_the_other(hooks: Any, threads: int) -> None:
    early = ffi.new("uint32_t *")
    assert hooks.t_pool_series(threads, [19, 19], NEVER, early) == SERIES_TASKS
    assert early[0] == 0


@pytest.mark.parametrize("series", [(0, 0), (19, 20), (19, 0)])
def test_pool_run__jobs_of_different_series__run_at_the_same_time(hooks: Any, series: tuple[int, int]) -> None:
    early = ffi.new("uint32_t *")
    assert hooks.t_pool_series(2, list(series), NEVER, early) > 0
    assert early[0] > 0


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_pool_run__cancelled_before_its_turn__ends_before_the_earlier_job(hooks: Any, threads: int) -> None:
    early = ffi.new("uint32_t *")
    assert 50 <= hooks.t_pool_series(threads, [19, 19], 50, early) < SERIES_TASKS
    assert early[0] == 0
