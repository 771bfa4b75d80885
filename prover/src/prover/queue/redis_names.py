"""Names of the queue's keys in Redis; one hash tag keeps all of them in one slot of a cluster.

The scripts derive most names from the prefix: see ``lua/leases.lua``.
"""

from __future__ import annotations

from dataclasses import dataclass

from prover.queue.circuit_queues import CircuitQueue


@dataclass(frozen=True)
class RedisNames:
    """Names under one hash tag."""

    namespace: str = "zkc-prover"

    @property
    def prefix(self) -> str:
        """Prefix of all names; names of arq have ``arq:job:`` and the like before it."""
        return f"{{{self.namespace}}}:"

    @property
    def events(self) -> str:
        """Channel that carries the ids of jobs whose state changed."""
        return f"{self.prefix}events"

    @property
    def unused(self) -> str:
        """Name of a key that never exists: a write that needs it has no effect."""
        return f"{self.prefix}nothing"

    def wake_queue(self, queue: CircuitQueue) -> str:
        """Return the name of the arq queue (``queue_name`` of an arq worker): a sorted set of wake-ups."""
        return f"{self.prefix}{queue.value}"

    @property
    def timer_queue(self) -> str:
        """Name of the arq queue of the timers."""
        return f"{self.prefix}timers"

    def job(self, job_id: str) -> str:
        """Return the name of the hash with the record of a job."""
        return f"{self.prefix}job:{job_id}"
