"""Pauses of a tree processor after failures; no I/O."""

from collections.abc import Callable

from forester.errors import ForesterError
from shared.process.retries import Backoff, jittered

_BACKOFF = Backoff(0.4, 30.0)


class Pause:
    """Growing pauses after consecutive failures, of at least half of the full wait."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures = 0
        self._until = 0.0
        self.failure: ForesterError | None = None

    @property
    def is_over(self) -> bool:
        """Return whether the pause is over."""
        return self._clock() >= self._until

    def failed(self, error: ForesterError) -> None:
        """Record a failure."""
        self.failure = error
        self._failures += 1
        self._until = self._clock() + jittered(_BACKOFF, self._failures)

    def succeeded(self) -> None:
        """Reset the pauses."""
        self.failure, self._failures, self._until = None, 0, 0.0
