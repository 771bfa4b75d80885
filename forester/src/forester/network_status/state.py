"""The state of all trees and epochs at one moment, as read from the chain."""

from dataclasses import dataclass
from functools import cached_property

from solders.pubkey import Pubkey

from forester.chain.batched_accounts import BatchedTree, OutputQueue, QueueBatches
from forester.chain.concurrent_accounts import ConcurrentTree
from forester.chain.registry_accounts import ForesterEpochAccount, ProtocolConfigAccount
from forester.chain.tree_metadata import TreeKind, TreeMetadata
from forester.network_status.epochs import EpochView, owners, protocol_times


@dataclass(frozen=True)
class TreeState:
    """A tree with its queues: those of its version are set, ``pending_cells`` and ``cells`` count a V1 queue."""

    tree: TreeMetadata
    batched: BatchedTree | None = None
    output_queue: OutputQueue | None = None
    concurrent: ConcurrentTree | None = None
    pending_cells: int = 0
    cells: int = 0

    @property
    def kind(self) -> TreeKind:
        """Kind of the tree."""
        return self.tree.kind

    @property
    def head(self) -> BatchedTree | ConcurrentTree:
        """The decoded tree."""
        found = self.batched or self.concurrent
        assert found is not None  # noqa: S101 - the reader sets one of them
        return found

    @property
    def capacity(self) -> int:
        """Leaves that the tree can hold."""
        return int(2**self.head.height)

    @property
    def threshold(self) -> int:
        """Leaves from which the tree is due for rollover."""
        return self.capacity * self.tree.metadata.rollover_threshold // 100

    @property
    def fullness_percentage(self) -> float:
        """Part of the capacity that is used."""
        return self.head.next_index / self.capacity * 100

    @property
    def queues(self) -> dict[str, QueueBatches]:
        """V2 queues by the label of their metric: output before input, as forester work is."""
        if self.batched is None:
            return {}
        if self.output_queue is None:
            return {self.kind.label: self.batched.queue}
        return {"StateV2.Append": self.output_queue.queue, "StateV2.Nullify": self.batched.queue}

    @property
    def pending(self) -> dict[str, int]:
        """Elements that wait, by the label of their metric."""
        if self.batched is None:
            return {self.kind.label: self.pending_cells}
        return {label: queue.pending_elements for label, queue in self.queues.items()}


@dataclass(frozen=True)
class NetworkState:
    """Content of a status. ``registrations`` are by epoch, in the order of their share of the weight."""

    slot: int
    protocol: ProtocolConfigAccount
    registrations: dict[int, tuple[ForesterEpochAccount, ...]]
    registered_weights: dict[int, int]
    balances: dict[Pubkey, int]
    trees: tuple[TreeState, ...]

    @cached_property
    def epochs(self) -> EpochView:
        """Epochs at the slot."""
        return EpochView.at(protocol_times(self.protocol.config), self.slot)

    @property
    def active_registrations(self) -> tuple[ForesterEpochAccount, ...]:
        """Foresters of the active epoch."""
        return () if self.epochs.active is None else self.registrations.get(self.epochs.active, ())

    def owner(self, tree: TreeMetadata) -> str | None:
        """Return the authority of the forester that owns the current light slot of a tree; None if it is unowned."""
        light_slot = self.epochs.light_slot
        if light_slot is None:
            return None
        # The active phase may end with an incomplete light slot, which is not counted.
        light_slots = max(self.epochs.light_slots, light_slot + 1)
        position = self.owners_in(tree, self.epochs.active, light_slots)[light_slot]
        return None if position is None else str(self.active_registrations[position].authority)

    def schedule(self, tree: TreeMetadata) -> tuple[int | None, ...]:
        """Return the positions of the owners of all light slots of the active phase in ``active_registrations``."""
        return self.owners_in(tree, self.epochs.active, self.epochs.light_slots)

    def owners_in(self, tree: TreeMetadata, epoch: int | None, light_slots: int) -> tuple[int | None, ...]:
        """Return the owners of light slots of an epoch as positions in its registrations, None for unowned ones."""
        if epoch is None:
            return (None,) * light_slots
        shares = tuple((item.forester_index, item.weight) for item in self.registrations.get(epoch, ()))
        return owners(shares, self.registered_weights.get(epoch, 0), bytes(tree.eligibility_key), epoch, light_slots)
