"""Pauses after failures."""

from __future__ import annotations

from forester.waiting import RetryPause


def test_pause__failures__are_counted_and_each_pause_begins_at_its_failure() -> None:
    now = 0.0
    pause = RetryPause(lambda failures: 10.0 * failures, lambda: now)
    assert pause.is_over
    assert [pause.failed(), pause.failed()] == [10.0, 20.0]
    assert pause.failures == 2
    now = 19.9
    assert not pause.is_over
    now = 20.0
    assert pause.is_over
    pause.failed()
    now = 49.9
    assert not pause.is_over


def test_pause__success__ends_it_and_the_count() -> None:
    pause = RetryPause(lambda failures: 10.0 * failures, lambda: 0.0)
    pause.failed()
    pause.failed()
    pause.succeeded()
    assert pause.is_over
    assert (pause.failures, pause.failed()) == (0, 10.0)
