"""Names of what the queue keeps in Redis; one hash tag holds them all in one slot of a cluster.

The scripts make most names from the prefix: see ``lua/leases.lua``.
"""

from __future__ import annotations

from dataclasses import dataclass

from prover.queue.circuit_queues import CircuitQueue


@dataclass(frozen=True)
class Keys:
    """Names under one hash tag."""

    namespace: str = "zkc-prover"

    @property
    def prefix(self) -> str:
        """What all names begin with, after ``arq:job:`` and the like for names of arq."""
        return f"{{{self.namespace}}}:"

    @property
    def events(self) -> str:
        """Channel on which ids of jobs whose state changed are published."""
        return f"{self.prefix}events"

    def wake_queue(self, lane: CircuitQueue) -> str:
        """Name of the lane's arq queue (``queue_name`` of an arq worker): a sorted set of wake-ups."""
        return f"{self.prefix}{lane.value}"

    def job(self, job_id: str) -> str:
        """Hash with what is known about a job."""
        return f"{self.prefix}job:{job_id}"
