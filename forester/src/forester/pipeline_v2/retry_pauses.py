"""Pauses of a tree processor after failures, and batches that it skips for a while; no I/O."""

from collections.abc import Callable

from forester.errors import ForesterError
from forester.pipeline_v2.failures import RefusedAgain
from forester.pipeline_v2.proof_scheduler import Link
from shared.retries import Backoff, jittered

_BACKOFF = Backoff(0.4, 30.0)
_REFUSALS = 2
_REMEMBERED = 256


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


class Refusals:
    """Batches whose proofs the chain has refused repeatedly: another one would also be refused."""

    def __init__(self, kept_s: float, clock: Callable[[], float]) -> None:
        self._kept_s = kept_s
        self._clock = clock
        self._counts: dict[Link, tuple[int, float]] = {}

    def add(self, link: Link) -> None:
        """Count a refused proof."""
        now = self._clock()
        self._counts = {old: seen for old, seen in self._counts.items() if now - seen[1] < self._kept_s}
        self._counts[link] = (self._counts.get(link, (0, now))[0] + 1, now)
        while len(self._counts) > _REMEMBERED:
            del self._counts[next(iter(self._counts))]

    def check(self, link: Link) -> None:
        """Raise RefusedAgain if a batch should not be proved again yet."""
        count, at = self._counts.get(link, (0, 0.0))
        if count >= _REFUSALS and self._clock() - at < self._kept_s:
            raise RefusedAgain(
                f"the chain refused {count} proofs of {link[1]} batch {link[0]}; the next one is made "
                f"{self._kept_s:g} s after the last; compare the keys of the prover with those of the programs"
            )
