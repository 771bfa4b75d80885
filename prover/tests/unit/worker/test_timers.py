"""Times at which arq runs the timers."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from arq.cron import next_cron

from prover.worker.timers import times

MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("period_s", "kept_s"),
    [
        (10, 10), (600, 600), (1800, 1800),
        (0.5, 1), (1.9, 1), (45, 30), (59, 30), (60, 60), (700, 600), (3599, 1800), (3600, 3600), (5 * 3600, 4 * 3600),
        (86_400, 86_400), (10**6, 86_400),
    ],
)  # fmt: skip
def test_times__of_a_period__are_regular_and_no_rarer(period_s: float, kept_s: float) -> None:
    arguments: Any = times(period_s)
    moment, moments = MIDNIGHT, []
    for _ in range(50):
        moment = next_cron(moment, **arguments, microsecond=0)
        moments.append(moment)
    steps = {(later - earlier).total_seconds() for earlier, later in pairwise(moments)}
    assert steps == {kept_s}
