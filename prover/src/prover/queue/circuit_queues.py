"""The three circuit queues: independent lines of jobs, named as the reference names its queues."""

from __future__ import annotations

import enum

from shared.circuit_id import CircuitKind


class CircuitQueue(enum.Enum):
    """An independent line of jobs; the value is the name of the reference's queue."""

    UPDATE = "zk_update_queue"
    """Batch updates, and every other kind of circuit without a queue of its own, including unknown ones."""
    APPEND = "zk_append_queue"
    ADDRESS_APPEND = "zk_address_append_queue"

    @property
    def queue_name(self) -> str:
        """Name of the waiting jobs in statistics."""
        return self.value

    @property
    def processing_name(self) -> str:
        """Name of the running jobs in statistics."""
        return self.value.removesuffix("queue") + "processing_queue"

    @property
    def label(self) -> str:
        """Value of metric labels: ``update``, ``append`` or ``address-append``."""
        return self.value.removeprefix("zk_").removesuffix("_queue").replace("_", "-")

    @classmethod
    def of(cls, kind: CircuitKind | str | None) -> CircuitQueue:
        """Return the queue of a circuit kind, spelled as in ``circuitType``; UPDATE for unknown kinds."""
        return _QUEUES.get(kind, cls.UPDATE) if kind else cls.UPDATE


_QUEUES: dict[str, CircuitQueue] = {
    CircuitKind.BATCH_APPEND: CircuitQueue.APPEND,
    CircuitKind.BATCH_ADDRESS_APPEND: CircuitQueue.ADDRESS_APPEND,
}
