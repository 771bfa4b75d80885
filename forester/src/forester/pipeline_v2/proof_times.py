"""Estimate of the time of a proof from earlier ones of the tree; no I/O."""

from collections import deque
from collections.abc import Callable

FIRST_PROOF_S = 10.0
"""Assumed seconds of a proof before the first one."""

_REMEMBERED = 16
_REMEMBERED_S = 300.0
"""Seconds after which a measurement is dropped: a prover that was busy five minutes ago may be idle now."""


class ProofTimes:
    """Seconds from request to result, each with the number of the tree's proofs under way before it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, int, float]] = deque(maxlen=_REMEMBERED)

    def add(self, before: int, seconds: float) -> None:
        """Record a finished proof."""
        self._seen.append((self._clock(), before, seconds))

    def usual(self, before: int) -> float:
        """Return the usual seconds of a proof requested while ``before`` others are under way.

        The longest of the last few that had no more before them; where none had as many, the prover is assumed to make
        one after another.
        """
        now = self._clock()
        recent = [item for item in self._seen if now - item[0] <= _REMEMBERED_S] or list(self._seen)[-1:]
        if not recent:
            return FIRST_PROOF_S * (before + 1)
        alike = max(before, min(item[1] for item in recent))
        longest = max(seconds for _, waiting, seconds in recent if waiting <= alike)
        largest = max(item[1] for item in recent)
        return longest * max(1.0, (before + 1) / (largest + 1))
