"""The three lanes of the queue: independent lines of jobs, named as the reference names its queues."""

from __future__ import annotations

import enum

from shared.circuit_id import CircuitKind


class CircuitQueue(enum.Enum):
    """An independent line of jobs; the value is the name of the reference's queue."""

    UPDATE = "zk_update_queue"
    """Batch updates, and every kind of circuit without a lane of its own, unknown ones included."""
    APPEND = "zk_append_queue"
    ADDRESS_APPEND = "zk_address_append_queue"

    @property
    def queue_name(self) -> str:
        """Name under which statistics show the waiting jobs."""
        return self.value

    @property
    def processing_name(self) -> str:
        """Name under which statistics show the running jobs."""
        return self.value.removesuffix("queue") + "processing_queue"

    @property
    def label(self) -> str:
        """Value of metric labels: ``update``, ``append`` or ``address-append``."""
        return self.value.removeprefix("zk_").removesuffix("_queue").replace("_", "-")

    @classmethod
    def of(cls, kind: CircuitKind | str | None) -> CircuitQueue:
        """The lane of a circuit kind as ``circuitType`` names it; whatever is unknown goes to UPDATE."""
        return _LANES.get(kind, cls.UPDATE) if kind else cls.UPDATE


_LANES: dict[str, CircuitQueue] = {
    CircuitKind.BATCH_APPEND: CircuitQueue.APPEND,
    CircuitKind.BATCH_ADDRESS_APPEND: CircuitQueue.ADDRESS_APPEND,
}
