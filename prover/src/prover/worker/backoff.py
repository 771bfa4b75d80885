"""Delays that grow with every consecutive failure up to a maximum, spread so that instances do not retry at once."""

import random
from collections.abc import Iterator

_FIRST_S = 0.2
_MAX_S = 5.0
_SPREAD = 0.5


def backoff_delays() -> Iterator[float]:
    """Yield the delay in seconds after each consecutive failure: 0.2 doubled up to 5, spread by half."""
    delay = _FIRST_S
    while True:
        yield delay * random.uniform(1 - _SPREAD, 1)  # noqa: S311 - it needs no secrecy
        delay = min(delay * 2, _MAX_S)
