"""The circuit queues: independent lines of jobs by circuit and network, named as the reference names its queues."""

from __future__ import annotations

import enum

from shared.requests.circuit_id import CircuitKind


class Network(enum.StrEnum):
    """A Solana cluster whose jobs have queues of their own; the value is the word in the header and in names."""

    MAINNET = "mainnet"
    DEVNET = "devnet"


class CircuitQueue(enum.Enum):
    """An independent line of jobs; the value is the name of the reference's queue."""

    UPDATE = "zk_update_queue"
    """Batch updates, and every other kind of circuit without a queue of its own, including unknown ones."""
    APPEND = "zk_append_queue"
    ADDRESS_APPEND = "zk_address_append_queue"
    UPDATE_MAINNET = "zk_update_mainnet_queue"
    APPEND_MAINNET = "zk_append_mainnet_queue"
    ADDRESS_APPEND_MAINNET = "zk_address_append_mainnet_queue"
    UPDATE_DEVNET = "zk_update_devnet_queue"
    APPEND_DEVNET = "zk_append_devnet_queue"
    ADDRESS_APPEND_DEVNET = "zk_address_append_devnet_queue"

    @property
    def queue_name(self) -> str:
        """Name of the waiting jobs in statistics."""
        return self.value

    @property
    def processing_name(self) -> str:
        """Name of the running jobs in statistics."""
        return self.value.removesuffix("queue") + "processing_queue"

    @property
    def network(self) -> Network | None:
        """Network of the jobs; None for jobs whose client named none."""
        return next((network for network in Network if self.value.endswith(f"_{network}_queue")), None)

    @property
    def without_network(self) -> CircuitQueue:
        """Queue of the same circuits for jobs without a network."""
        return CircuitQueue(self.value.replace(f"_{self.network}_queue", "_queue"))

    @property
    def label(self) -> str:
        """Value of metric labels: ``update``, ``append`` or ``address-append``."""
        return self.without_network.value.removeprefix("zk_").removesuffix("_queue").replace("_", "-")

    @classmethod
    def of(cls, kind: CircuitKind | str | None, network: Network | None = None) -> CircuitQueue:
        """Return the queue of a circuit kind, spelled as in ``circuitType``; that of updates for unknown kinds."""
        queue = _QUEUES.get(kind, cls.UPDATE) if kind else cls.UPDATE
        return cls(queue.value.replace("_queue", f"_{network}_queue")) if network else queue


_QUEUES: dict[str, CircuitQueue] = {
    CircuitKind.BATCH_APPEND: CircuitQueue.APPEND,
    CircuitKind.BATCH_ADDRESS_APPEND: CircuitQueue.ADDRESS_APPEND,
}
