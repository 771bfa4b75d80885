from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forester.limits.backoff import LONGEST_RETRY_AFTER_S, Backoff, jittered, read_retry_after

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
    ],
)
def test_retry_after__forms_of_the_header__are_read(text: str | None, seconds: float | None) -> None:
    assert read_retry_after(text, NOW) == seconds


def test_jittered__failures__doubles_to_the_bound_and_is_never_below_half() -> None:
    backoff = Backoff(0.2, 30.0)
    for failures, bound in ((1, 0.2), (2, 0.4), (5, 3.2), (9, 30.0), (1000, 30.0)):
        for _ in range(20):
            assert bound / 2 <= jittered(backoff, failures) <= bound
