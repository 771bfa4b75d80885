"""Bounds and times of the queue."""

from dataclasses import dataclass
from typing import Final

STUCK_MS: Final = 120_000
"""Running jobs older than this count as stuck in statistics, as in the reference."""


@dataclass(frozen=True)
class QueueLimits:
    """Bounds and times of the queue; every process on one Redis should use the same. Times are seconds."""

    lane_jobs: int = 20_000
    """Jobs that may wait in a lane."""
    lane_bytes: int = 8 * 2**30
    """Bodies of waiting and running jobs of a lane, together."""
    max_wait_s: float = 600
    """A job that waited so long for a worker fails."""
    lease_s: float = 10
    """A job whose worker gave no sign of life for so long goes back."""
    attempts: int = 3
    """Attempts that a job gets."""
    result_s: float = 3600
    """How long results are kept."""
    failure_s: float = 3600
    """How long failures are kept."""
    kept_failures: int = 50_000
    """Failed and cancelled jobs that are kept at most; the oldest go before their time."""
    request_s: float = 3600
    """Age at which whatever is left of a waiting request is removed."""

    def milliseconds(self) -> dict[str, int]:
        """The times as the scripts take them, and the numbers that go with them."""
        return {
            "max_wait_ms": _ms(self.max_wait_s),
            "lease_ms": _ms(self.lease_s),
            "result_ms": _ms(self.result_s),
            "failure_ms": _ms(self.failure_s),
            "request_ms": _ms(self.request_s),
            "stuck_ms": STUCK_MS,
            "attempts": self.attempts,
            "kept_failures": self.kept_failures,
        }


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))
