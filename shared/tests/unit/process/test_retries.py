from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.process.retries import LONGEST_RETRY_AFTER_S, Backoff, jittered, read_retry_after, run_restarting

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


@settings(deadline=None)
@given(st.integers(0, 10**9), st.floats(0, 1, exclude_max=True))
def test_wait__any_number_of_failures__stays_below_the_longest(failures: int, fraction: float) -> None:
    assert 0 <= Backoff(0.2, 8.0).wait_s(failures, fraction) <= 8.0


def test_wait__first_failures__doubles_up_to_the_longest() -> None:
    waits = [Backoff(0.2, 8.0).wait_s(failures, 1.0) for failures in range(1, 9)]
    assert waits == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 8.0, 8.0]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("3", 3.0),
        (" 0 ", 0.0),
        ("99999999999999999999", LONGEST_RETRY_AFTER_S),
        ("Thu, 01 Jan 2026 12:00:05 GMT", 5.0),
        ("Thu, 01 Jan 2026 11:00:00 GMT", 0.0),
        ("Thu, 01 Jan 2026 23:00:00 GMT", LONGEST_RETRY_AFTER_S),
        (None, None),
        ("", None),
        ("-1", None),
        ("soon", None),
        ("١٢", None),
        ("Fri, 31 Dec 99999999999999999999 23:59:59 GMT", None),
        ("Fri, 31 Dec 2024 23:59:59 +99999999999999999999", None),
    ],
)
def test_retry_after__forms_of_the_header__are_read(text: str | None, seconds: float | None) -> None:
    assert read_retry_after(text, NOW) == seconds


def test_jittered__failures__doubles_to_the_bound_and_is_never_below_half() -> None:
    backoff = Backoff(0.2, 30.0)
    for failures, bound in ((1, 0.2), (2, 0.4), (5, 3.2), (9, 30.0), (1000, 30.0)):
        for _ in range(20):
            assert bound / 2 <= jittered(backoff, failures) <= bound


def test_pause__failures__is_any_part_of_the_bound_after_the_retry_after() -> None:
    backoff = Backoff(0.2, 30.0)
    for failures, bound in ((1, 0.2), (5, 3.2), (1000, 30.0)):
        for _ in range(20):
            assert 0 <= backoff.pause_s(failures) < bound
            assert 7 <= backoff.pause_s(failures, 7) < 7 + bound


def test_retry_after__longer_bound_of_the_caller__is_kept() -> None:
    assert read_retry_after("200", longest_s=300) == 200


async def test_run_restarting__work_fails__runs_again_until_it_returns_and_counts_steady_attempts_again() -> None:
    errors: list[Exception | None] = [ValueError("a"), KeyError("b"), None]
    reported: list[tuple[str, int]] = []
    pauses: list[float] = []

    async def work() -> None:
        if error := errors.pop(0):
            raise error

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    def failed(error: Exception, failures: int, _: float) -> None:
        reported.append((type(error).__name__, failures))

    await run_restarting(work, Backoff(1, 8), failed, steady_s=60, pause=pause)
    assert reported == [("ValueError", 1), ("KeyError", 2)]
    assert 0.5 <= pauses[0] <= 1 <= pauses[1] <= 2
    errors += [ValueError("a"), ValueError("b"), None]
    await run_restarting(work, Backoff(1, 8), failed, steady_s=0, pause=pause)
    assert reported[2:] == [("ValueError", 1), ("ValueError", 1)]


async def test_run_restarting__pause_says_stop__runs_no_more() -> None:
    attempts = 0

    async def work() -> None:
        nonlocal attempts
        attempts += 1
        raise ValueError

    async def stopping(_: float) -> bool:
        return True

    await run_restarting(work, Backoff(), lambda *_: None, steady_s=60, pause=stopping)
    assert attempts == 1
