"""Tests that `make test` samples and `make test-acceptance` runs in full (ZKC_FULL=1)."""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Iterable

import pytest

FULL = os.environ.get("ZKC_FULL") == "1"
CHECKED = bool(os.environ.get("PROVER_TESTING_LIBRARY"))
"""Whether this is `make sanitize`."""


def examples(count: int) -> int:
    """Return how many examples of arithmetic to compare: the checked build is to see every path, not as many values."""
    if FULL:
        return count
    return max(2, count // 10) if CHECKED else max(3, count // 4)


def left_out(items: Iterable[pytest.Item], seed: object) -> set[pytest.Item]:
    """Return the cases that the mark ``sampled(count, checked=count)`` of a test leaves out: all but so many.

    Which ones is drawn by the seed of the run, the same in all of its processes. ``checked`` is for `make sanitize`.
    """
    if FULL:
        return set()
    tests: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled"):
            tests[item.nodeid.partition("[")[0]].append(item)
    dropped: set[pytest.Item] = set()
    for name, cases in tests.items():
        mark = cases[0].get_closest_marker("sampled")
        assert mark is not None
        count = mark.kwargs.get("checked", mark.args[0]) if CHECKED else mark.args[0]
        in_order = sorted(cases, key=lambda item: item.nodeid)
        dropped |= set(random.Random(f"{seed} {name}").sample(in_order, max(0, len(cases) - count)))
    return dropped
