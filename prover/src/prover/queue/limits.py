"""Bounds and times of the queue."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from prover.queue.circuit_queues import CircuitQueue, Network

STUCK_MS: Final = 120_000
"""Running jobs older than this count as stuck in statistics, as in the reference."""


@dataclass(frozen=True)
class QueueLimits:
    """Bounds and times of the queue, equal for all processes on one Redis. Times are seconds."""

    jobs_per_queue: int = 20_000
    """Maximum waiting jobs of each circuit queue."""
    jobs_per_network_queue: Mapping[Network, int] = field(default_factory=dict)
    """Maximum waiting jobs of each circuit queue of a network; ``jobs_per_queue`` holds as well."""
    bytes_per_queue: int = 8 * 2**30
    """Maximum total size of the bodies of waiting and running jobs of each circuit queue."""
    max_wait_s: float = 3600
    """Wait for a worker after which a job fails."""
    lease_s: float = 10
    """Time without a heartbeat of its worker after which a job is requeued."""
    attempts: int = 3
    """Maximum attempts of a job."""
    result_s: float = 3600
    """Retention of results."""
    failure_s: float = 3600
    """Retention of failures."""
    kept_failures: int = 50_000
    """Maximum kept failed and cancelled jobs; beyond it the oldest are removed early."""
    request_s: float = 3600
    """Age at which a waiting request and its leftovers are removed."""

    def jobs_in(self, queue: CircuitQueue) -> int:
        """Return the maximum waiting jobs of a queue."""
        network = queue.network
        own = self.jobs_per_network_queue.get(network) if network else None
        return self.jobs_per_queue if own is None else min(own, self.jobs_per_queue)

    def milliseconds(self) -> dict[str, int]:
        """Return the times in milliseconds and the numbers that the scripts expect."""
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
