"""State and address trees behind one protocol: reads from the indexer, and staging."""

from collections.abc import Sequence
from typing import Protocol

from forester.chain.tree_metadata import TreeKind
from forester.indexer.client import IndexerClient
from forester.indexer.queue_pages import read_address_queue, read_state_queue
from forester.indexer.types import AddressQueue, Hash32, StateQueue
from forester.pipeline_v2.staging.staged_batches import Staging, stage_addresses, stage_state
from forester.pipeline_v2.staging.tree_head import TreeHead
from shared.circuit_id import CircuitKind

Snapshot = StateQueue | AddressQueue


class TreeStrategy(Protocol):
    """Processing of one kind of V2 trees."""

    def provable(self, head: TreeHead) -> int:
        """Return the number of batches with final hash chains on the chain; with 0 no read of the indexer is needed."""

    async def read(self, indexer: IndexerClient, tree: Hash32, head: TreeHead, max_batches: int) -> Snapshot | None:
        """Read the elements of that many batches at most; None if no batch is complete."""

    def stage(
        self, snapshot: Snapshot, head: TreeHead, max_batches: int, first: Sequence[CircuitKind] = ()
    ) -> Staging | None:
        """Prepare batches of a snapshot, in order of ``first`` while it lasts (blocks: hashing); StagingRefused."""


class StateStrategy:
    """State trees: appends from the output queue, nullifications from the tree's own."""

    def provable(self, head: TreeHead) -> int:
        """Return the number of batches of both queues."""
        return len(head.append_chains) + len(head.input_chains)

    async def read(self, indexer: IndexerClient, tree: Hash32, head: TreeHead, max_batches: int) -> Snapshot | None:
        """Read both queues in one snapshot."""
        appends, nullifies = min(len(head.append_chains), max_batches), min(len(head.input_chains), max_batches)
        return await read_state_queue(
            indexer, tree, appends=appends, nullifies=nullifies, zkp_batch_size=head.zkp_batch_size
        )

    def stage(
        self, snapshot: Snapshot, head: TreeHead, max_batches: int, first: Sequence[CircuitKind] = ()
    ) -> Staging | None:
        """Prepare appends and nullifications, interleaved."""
        if not isinstance(snapshot, StateQueue):
            raise TypeError("a state tree is staged from a StateQueue")
        return stage_state(snapshot, head, max_batches, first)


class AddressStrategy:
    """Address trees: insertions from the tree's own queue."""

    def provable(self, head: TreeHead) -> int:
        """Return the number of batches of the queue."""
        return len(head.input_chains)

    async def read(self, indexer: IndexerClient, tree: Hash32, head: TreeHead, max_batches: int) -> Snapshot | None:
        """Read the queue and the low elements of its addresses."""
        batches = min(self.provable(head), max_batches)
        if not batches:
            return None
        queue = await read_address_queue(indexer, tree, batches=batches, zkp_batch_size=head.zkp_batch_size)
        return queue if len(queue.addresses) >= head.zkp_batch_size else None

    def stage(
        self,
        snapshot: Snapshot,
        head: TreeHead,
        max_batches: int,
        first: Sequence[CircuitKind] = (),  # noqa: ARG002 - all batches have the same kind
    ) -> Staging | None:
        """Prepare insertions."""
        if not isinstance(snapshot, AddressQueue):
            raise TypeError("an address tree is staged from an AddressQueue")
        return stage_addresses(snapshot, head, max_batches)


def strategy_of(kind: TreeKind) -> TreeStrategy:
    """Return the strategy of a V2 tree; ValueError for trees of V1."""
    strategies: dict[TreeKind, TreeStrategy] = {
        TreeKind.STATE_V2: StateStrategy(),
        TreeKind.ADDRESS_V2: AddressStrategy(),
    }
    if kind not in strategies:
        raise ValueError(f"{kind.label} trees are not batched")
    return strategies[kind]
