from __future__ import annotations

import asyncio

import pytest

from shared.process.rate_limits import LogThrottle, TokenBucket


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_token_bucket__rate_of_none__is_refused() -> None:
    with pytest.raises(ValueError, match="lets no call pass"):
        TokenBucket(0)


def test_token_bucket__takers__never_exceed_the_rate() -> None:
    clock = Clock()
    bucket = TokenBucket(5, burst=3, clock=clock)
    assert [round(bucket.take(), 6) for _ in range(4)] == [0, 0, 0, 0.2]
    clock.now += 100
    assert [round(bucket.take(), 6) for _ in range(4)] == [0, 0, 0, 0.2]


@pytest.fixture
def sleeping(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return a clock that ``asyncio.sleep`` moves; it lets other tasks run first."""
    clock, sleep = Clock(), asyncio.sleep

    async def moved(seconds: float) -> None:
        await sleep(0)
        clock.now += seconds

    monkeypatch.setattr(asyncio, "sleep", moved)
    return clock


async def test_token_bucket__waiters__pass_in_the_order_of_their_calls_at_the_rate(sleeping: Clock) -> None:
    bucket = TokenBucket(5, clock=sleeping)
    passed: list[tuple[int, float]] = []

    async def caller(number: int) -> None:
        await bucket.wait()
        passed.append((number, round(sleeping.now, 6)))

    await asyncio.gather(*(caller(number) for number in range(4)))
    assert passed == [(0, 0), (1, 0.2), (2, 0.4), (3, 0.6)]


async def test_token_bucket__sleeps_that_end_late__reach_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, sleep = Clock(), asyncio.sleep

    async def late(seconds: float) -> None:
        await sleep(0)
        clock.now += seconds + 0.025

    monkeypatch.setattr(asyncio, "sleep", late)
    bucket = TokenBucket(100, clock=clock)
    await asyncio.gather(*(bucket.wait() for _ in range(101)))
    assert 1.0 <= clock.now <= 1.04


async def test_token_bucket__loop_that_stalls__lets_few_pass_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, sleep, passed, stalls = Clock(), asyncio.sleep, list[float](), [0.0, 10.0]

    async def moved(seconds: float) -> None:
        await sleep(0)
        clock.now += seconds + (stalls.pop() if stalls else 0.0)

    monkeypatch.setattr(asyncio, "sleep", moved)
    bucket = TokenBucket(100, clock=clock)

    async def caller() -> None:
        await bucket.wait()
        passed.append(clock.now)

    await asyncio.gather(*(caller() for _ in range(100)))
    assert max(sum(at <= other < at + 0.05 for other in passed) for at in passed) <= 16


async def test_token_bucket__cancelled_waiters__use_no_pass() -> None:
    bucket = TokenBucket(1, clock=Clock())
    await bucket.wait()
    waiting = [asyncio.create_task(bucket.wait()) for _ in range(50)]
    await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    assert bucket.take() == 1


def test_token_bucket__refused_takers__use_no_pass() -> None:
    clock = Clock()
    bucket = TokenBucket(5, burst=2, clock=clock)
    assert [round(bucket.take(), 6) for _ in range(4)] == [0, 0, 0.2, 0.2]
    clock.now += 0.3
    assert [round(bucket.take(), 6) for _ in range(2)] == [0, 0.1]


def test_log_throttle__events_at_once_and_later__counts_all_of_them() -> None:
    clock = Clock()
    throttle = LogThrottle(10.0, clock=clock)
    assert [throttle.due() for _ in range(4)] == [1, 0, 0, 0]
    clock.now = 10.0
    assert [throttle.due(), throttle.due()] == [4, 0]


def test_log_throttle__burst__comes_before_the_first_suppressed_line() -> None:
    clock = Clock()
    throttle = LogThrottle(1.0, 3, clock=clock)
    assert [throttle.due() for _ in range(5)] == [1, 1, 1, 0, 0]
    clock.now = 1.0
    assert throttle.due() == 3
