"""A limit on the tasks of a pool that run at once: kept, changed inside jobs, fair to all callers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cffi
import pytest

ffi = cffi.FFI()
ffi.cdef("""
int32_t t_pool_active(uint32_t threads, uint32_t callers, uint32_t limit, uint32_t rounds);
int32_t t_pool_lowered(uint32_t threads, uint32_t limit);
int32_t t_pool_lifted(uint32_t threads, uint32_t limit);
int32_t t_pool_turns(uint32_t threads);
""")


@pytest.fixture(scope="module")
def hooks(testing_library: Path) -> Any:
    return ffi.dlopen(str(testing_library))


@pytest.mark.parametrize("threads", [1, 2, 4, 8])
@pytest.mark.parametrize("callers", [1, 2, 6])
@pytest.mark.parametrize("limit", [1, 2, 3])
def test_pool__under_a_limit__runs_no_more_tasks_at_once(hooks: Any, threads: int, callers: int, limit: int) -> None:
    most = hooks.t_pool_active(threads, callers, min(limit, threads), 10)
    assert 1 <= most <= min(limit, threads)


@pytest.mark.parametrize(("threads", "callers"), [(1, 3), (4, 1), (3, 8)])
def test_pool__limit_changed_all_the_time__runs_every_task_once(hooks: Any, threads: int, callers: int) -> None:
    most = hooks.t_pool_active(threads, callers, threads + 1, 20)
    assert 1 <= most <= threads - 1 + callers


@pytest.mark.parametrize(("threads", "limit"), [(2, 1), (6, 1), (6, 4)])
def test_pool__limit_lowered_inside_a_job__holds_for_what_begins_later(hooks: Any, threads: int, limit: int) -> None:
    assert 1 <= hooks.t_pool_lowered(threads, limit) <= limit


@pytest.mark.parametrize(("threads", "limit", "together"), [(4, 0, 4), (4, 3, 3), (6, 9, 6)])
def test_pool__limit_raised_inside_a_job__wakes_as_many(hooks: Any, threads: int, limit: int, together: int) -> None:
    assert hooks.t_pool_lifted(threads, limit) == together


@pytest.mark.parametrize("threads", [1, 3])
def test_pool__short_job_next_to_a_long_one_under_a_limit__has_its_turn(hooks: Any, threads: int) -> None:
    assert hooks.t_pool_turns(threads) == 1
