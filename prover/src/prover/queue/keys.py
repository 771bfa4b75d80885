"""Names of everything the queue keeps in Redis; one hash tag holds them in one slot of a cluster."""

from __future__ import annotations

from dataclasses import dataclass

from prover.queue.lanes import Lane


@dataclass(frozen=True)
class Keys:
    """Names under one hash tag."""

    namespace: str = "zkc-prover"

    @property
    def prefix(self) -> str:
        """What all names begin with."""
        return f"{{{self.namespace}}}:"

    def wake_queue(self, lane: Lane) -> str:
        """Name of the lane's arq queue (``queue_name`` of an arq worker): a sorted set of wake-ups."""
        return f"{self.prefix}{lane.value}"
