"""State of a V2 tree on the chain, against which staging is checked; no I/O."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from forester.chain.batched_accounts import (
    QUEUE_HEAD_BYTES,
    TREE_HEAD_BYTES,
    BatchedTree,
    QueueBatches,
    decode_batched_tree,
    decode_output_queue,
    latest_root,
    queue_hash_chains,
    tree_hash_chains,
)
from forester.pipeline_v2.staging.batch_plan import provable_batches

ROOT_BYTES = 32


@dataclass(frozen=True)
class TreeOutline:
    """Outline from the heads of a tree's account and its output queue, which shows whether work waits.

    ``provable`` counts the zkp batches that can be inserted one after another, those of all queues together.
    """

    root: bytes
    sequence: int
    provable: int

    @classmethod
    def read(cls, tree_data: bytes, queue_data: bytes | None = None) -> Self:
        """Decode the first ``outline_bytes`` of both accounts; MalformedAccount."""
        tree = decode_batched_tree(tree_data)
        provable = provable_batches(tree.queue)
        if queue_data is not None:
            provable += provable_batches(decode_output_queue(queue_data).queue)
        return cls(latest_root(tree, tree_data), tree.sequence_number, provable)


def outline_bytes(root_history: int) -> int:
    """Return the length of the slice that holds the head of a tree with a ring of ``root_history`` roots."""
    return max(TREE_HEAD_BYTES + ROOT_BYTES * root_history, QUEUE_HEAD_BYTES)


@dataclass(frozen=True)
class TreeHead:
    """A V2 tree and its queues at one moment.

    ``input_chains`` are the hash chains of the provable zkp batches of the tree's own queue (nullifiers or addresses),
    ``append_chains`` those of the output queue of a state tree; the first is the one that the next proof is checked
    with. ``zkp_batch_size`` is that of the tree's own queue, which state trees share with their output queue.
    """

    root: bytes
    sequence: int
    next_index: int
    nullifier_next_index: int
    height: int
    zkp_batch_size: int
    input_chains: tuple[bytes, ...]
    append_chains: tuple[bytes, ...] = ()

    @property
    def provable(self) -> int:
        """Number of zkp batches that can be inserted one after another, those of all queues together."""
        return len(self.append_chains) + len(self.input_chains)

    @classmethod
    def read(cls, tree_data: bytes, queue_data: bytes | None = None) -> Self:
        """Decode the whole accounts of a tree and, for a state tree, of its output queue; MalformedAccount."""
        tree: BatchedTree = decode_batched_tree(tree_data)
        append_chains: tuple[bytes, ...] = ()
        if queue_data is not None:
            queue = decode_output_queue(queue_data)
            append_chains = upcoming_chains(queue.queue, queue_hash_chains(queue, queue_data))
        return cls(
            root=latest_root(tree, tree_data),
            sequence=tree.sequence_number,
            next_index=tree.next_index,
            nullifier_next_index=tree.nullifier_next_index,
            height=tree.height,
            zkp_batch_size=tree.queue.zkp_batch_size,
            input_chains=upcoming_chains(tree.queue, tree_hash_chains(tree, tree_data)),
            append_chains=append_chains,
        )


def upcoming_chains(queue: QueueBatches, stores: Sequence[Sequence[bytes]]) -> tuple[bytes, ...]:
    """Return the hash chains of the zkp batches that can be inserted now, one after another."""
    order = (queue.pending_batch_index, 1 - queue.pending_batch_index)
    chains = [
        chain
        for index in order
        for chain in stores[index][queue.batches[index].inserted_zkp_batches : queue.batches[index].full_zkp_batches]
    ]
    return tuple(chains[: provable_batches(queue)])
