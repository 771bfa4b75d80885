"""Elements that are skipped for a while, so that none is sent twice while its outcome is unknown; no I/O.

A node that lags shows an element as waiting after it was moved: those that are done are also remembered.
"""

import math
import time
from collections.abc import Callable

_MINIMUM_BETWEEN_SWEEPS = 256


class RecentWork:
    """Elements by value. Unknown outcomes are remembered for ``open_s`` seconds, successes for ``done_s``."""

    def __init__(self, *, open_s: float, done_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._open_s = open_s
        self._done_s = done_s
        self._clock = clock
        self._until: dict[bytes, float] = {}
        self._sweep_at = _MINIMUM_BETWEEN_SWEEPS

    def __len__(self) -> int:
        return len(self._until)

    def __contains__(self, value: object) -> bool:
        until = self._until.get(value) if isinstance(value, bytes) else None
        return until is not None and self._clock() < until

    def sending(self, value: bytes) -> None:
        """Record an element before it is sent; its outcome is unknown until ``done`` or ``release``."""
        self._keep(value, self._open_s)

    def done(self, value: bytes) -> None:
        """Record that an element was moved, by us or another forester."""
        self._keep(value, self._done_s)

    def defer(self, value: bytes, longest_s: float = math.inf) -> None:
        """Skip an element that is refused repeatedly, or cannot be proved yet."""
        self._keep(value, min(self._done_s, longest_s))

    def release(self, value: bytes) -> None:
        """Allow an element to be sent again: none of its transactions can land any more."""
        self._until.pop(value, None)

    def _keep(self, value: bytes, seconds: float) -> None:
        now = self._clock()
        self._until[value] = now + seconds
        if len(self._until) >= self._sweep_at:
            self._until = {kept: until for kept, until in self._until.items() if until > now}
            self._sweep_at = max(_MINIMUM_BETWEEN_SWEEPS, 2 * len(self._until))
