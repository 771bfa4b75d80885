"""When a tree's processor tries again what failed, and which batches it leaves alone for a while; no I/O."""

from collections.abc import Callable

from forester.errors import ForesterError
from forester.limits.backoff import Backoff, jittered
from forester.pipeline_v2.failures import RefusedAgain
from forester.pipeline_v2.proof_scheduler import Link

_BACKOFF = Backoff(0.4, 30.0)
_REFUSALS = 2
_REMEMBERED = 256


class Pause:
    """Longer and longer after failures in a row, at least half of the full wait."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures = 0
        self._until = 0.0
        self.failure: ForesterError | None = None

    @property
    def over(self) -> bool:
        """Whether to try again now."""
        return self._clock() >= self._until

    def failed(self, error: ForesterError) -> None:
        """Take in a failure."""
        self.failure = error
        self._failures += 1
        self._until = self._clock() + jittered(_BACKOFF, self._failures)

    def succeeded(self) -> None:
        """Begin anew."""
        self.failure, self._failures, self._until = None, 0, 0.0


class Refusals:
    """Batches of which the chain has refused proof after proof: another one would be refused as well."""

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
        """Raise RefusedAgain if a batch is not worth another proof yet."""
        count, at = self._counts.get(link, (0, 0.0))
        if count >= _REFUSALS and self._clock() - at < self._kept_s:
            raise RefusedAgain(
                f"the chain refused {count} proofs of {link[1]} batch {link[0]}; the next one is made "
                f"{self._kept_s:g} s after the last; compare the keys of the prover with those of the programs"
            )
