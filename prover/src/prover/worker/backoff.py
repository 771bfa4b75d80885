"""Waiting longer after every failure in a row, up to a cap, and not in step with others."""

import random
from collections.abc import Iterator

_FIRST_S = 0.2
_CAP_S = 5.0
_SPREAD = 0.5


def backoff_delays() -> Iterator[float]:
    """Yield seconds to wait after the first failure, the second, and so on: 0.2 doubled up to 5, spread by half."""
    delay = _FIRST_S
    while True:
        yield delay * random.uniform(1 - _SPREAD, 1)  # noqa: S311 - nobody gains by guessing it
        delay = min(delay * 2, _CAP_S)
