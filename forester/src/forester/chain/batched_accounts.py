"""Zero-copy accounts of V2: trees with their input queue, and output queues.

Source: forester/docs/reference/accounts.md, "V2 tree" and "V2 output queue".

Heads need a slice of the account only; roots and hash chains need all of it.
"""

import enum
import struct
from dataclasses import dataclass

from forester.chain import bounds
from forester.chain.tree_metadata import (
    BATCHED_TREE_DISCRIMINATOR,
    OUTPUT_QUEUE_DISCRIMINATOR,
    Metadata,
    TreeKind,
    decode_metadata,
)
from forester.errors import MalformedAccount
from forester.units import Root

TREE_HEAD_BYTES = 704
"""Length of the slice that ``decode_batched_tree`` needs."""
QUEUE_HEAD_BYTES = 552
"""Length of the slice that ``decode_output_queue`` needs."""

_WORD = 32
_BATCH_BYTES = 96
_BATCHES = 2
_TREE = "V2 tree"
_QUEUE = "V2 output queue"
_TREE_COUNTERS = struct.Struct("<QQIIQ")
_QUEUE_COUNTERS = struct.Struct("<7Q")
_BATCH = struct.Struct("<11QIBB2x")
_STORE = struct.Struct("<QQ")


class BatchState(enum.Enum):
    """State of a batch."""

    FILL = 0
    INSERTED = 1
    FULL = 2


@dataclass(frozen=True)
class Batch:
    """One of the two batches of a queue.

    ``open_elements`` are in the zkp batch that is being filled; ``full_zkp_batches`` were filled,
    ``inserted_zkp_batches`` of them are in the tree.
    """

    open_elements: int
    state: BatchState
    full_zkp_batches: int
    inserted_zkp_batches: int
    bloom_iterations: int
    bloom_capacity: int
    batch_size: int
    zkp_batch_size: int
    sequence_number: int
    start_index: int
    start_slot: int | None
    root_index: int
    bloom_is_zeroed: bool

    @property
    def zkp_batches(self) -> int:
        """Number of zkp batches that the batch holds when it is full."""
        return self.batch_size // self.zkp_batch_size

    @property
    def ready_zkp_batches(self) -> int:
        """Filled zkp batches that are not in the tree."""
        return self.full_zkp_batches - self.inserted_zkp_batches

    @property
    def pending_elements(self) -> int:
        """Elements that are queued and not in the tree, including those of the open zkp batch."""
        return self.ready_zkp_batches * self.zkp_batch_size + self.open_elements


@dataclass(frozen=True)
class QueueBatches:
    """The counters of a queue. ``next_index`` counts all elements that were ever queued."""

    batch_size: int
    zkp_batch_size: int
    bloom_capacity: int
    filling_batch_index: int
    pending_batch_index: int
    next_index: int
    batches: tuple[Batch, Batch]

    @property
    def pending_batch(self) -> Batch:
        """The batch whose zkp batches go into the tree now."""
        return self.batches[self.pending_batch_index]

    @property
    def ready_zkp_batches(self) -> int:
        """Filled zkp batches of both batches that are not in the tree."""
        return sum(batch.ready_zkp_batches for batch in self.batches)

    @property
    def pending_elements(self) -> int:
        """Elements of both batches that are queued and not in the tree."""
        return sum(batch.pending_elements for batch in self.batches)


@dataclass(frozen=True)
class BatchedTree:
    """A V2 tree. Its queue holds nullifiers (state) or addresses.

    ``nullifier_next_index`` counts nullifiers in the tree; ``root_index`` is the position of the latest root in the
    ring of ``root_history_capacity``.
    """

    kind: TreeKind
    metadata: Metadata
    sequence_number: int
    next_index: int
    height: int
    root_history_capacity: int
    capacity: int
    queue: QueueBatches
    nullifier_next_index: int
    root_index: int


@dataclass(frozen=True)
class OutputQueue:
    """The queue of new leaves of a V2 state tree."""

    metadata: Metadata
    queue: QueueBatches
    tree_capacity: int


def decode_batched_tree(data: bytes) -> BatchedTree:
    """Decode the head of a V2 tree; MalformedAccount if it is none, as for all decoders here."""
    _require_head(data, BATCHED_TREE_DISCRIMINATOR, TREE_HEAD_BYTES, "V2 tree")
    number = int.from_bytes(data[8:16], "little")
    if number not in (TreeKind.STATE_V2.value, TreeKind.ADDRESS_V2.value):
        raise MalformedAccount(f"a V2 tree of the unknown kind {number}")
    kind = TreeKind(number)
    sequence_number, next_index, height, history, capacity = _TREE_COUNTERS.unpack_from(data, 232)
    nullifier_next_index = int.from_bytes(data[544:552], "little")
    bounds.check(_TREE, "height", height, kind.height, minimum=1)
    bounds.check_all(_TREE, 2**height, next_index=next_index, capacity=capacity)
    counts = {"sequence_number": sequence_number, "nullifier_next_index": nullifier_next_index}
    bounds.check_all(_TREE, bounds.LARGEST_COUNT, **counts)
    bounds.check(_TREE, "root_history_capacity", history, bounds.LARGEST_RING)
    current, length, ring = struct.unpack_from("<3Q", data, 680)
    bounds.check(_TREE, "capacity of the root history", ring, bounds.LARGEST_RING, minimum=1)
    bounds.check_all(_TREE, ring, **{"length of the root history": length, "current root index": current})
    return BatchedTree(
        kind=kind,
        metadata=decode_metadata(data, 16),
        sequence_number=sequence_number,
        next_index=next_index,
        height=height,
        root_history_capacity=history,
        capacity=capacity,
        queue=_queue(_TREE, data, 264),
        nullifier_next_index=nullifier_next_index,
        root_index=(current - 1) % ring,
    )


def decode_output_queue(data: bytes) -> OutputQueue:
    """Decode the head of an output queue."""
    _require_head(data, OUTPUT_QUEUE_DISCRIMINATOR, QUEUE_HEAD_BYTES, "V2 output queue")
    capacity = int.from_bytes(data[480:488], "little")
    bounds.check(_QUEUE, "tree_capacity", capacity, 2**TreeKind.STATE_V2.height)
    return OutputQueue(decode_metadata(data, 8), _queue(_QUEUE, data, 232), capacity)


def latest_root(tree: BatchedTree, data: bytes) -> Root:
    """Return the root that the next proof must begin with."""
    return Root(_words(data, TREE_HEAD_BYTES + _WORD * tree.root_index, 1)[0])


def tree_hash_chains(tree: BatchedTree, data: bytes) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """Return the hash chains of the filled zkp batches of both batches of a tree's queue."""
    ring = int.from_bytes(data[696:704], "little")
    return _hash_chains(data, TREE_HEAD_BYTES + _WORD * ring + _BATCHES * (tree.queue.bloom_capacity // 8))


def queue_hash_chains(queue: OutputQueue, data: bytes) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """Return the hash chains of the filled zkp batches of both batches of an output queue."""
    return _hash_chains(data, QUEUE_HEAD_BYTES + _BATCHES * (_STORE.size + _WORD * queue.queue.batch_size))


def _require_head(data: bytes, discriminator: bytes, length: int, what: str) -> None:
    if data[:8] != discriminator or len(data) < length:
        raise MalformedAccount(f"not a {what}: {len(data)} bytes, discriminator {data[:8].hex() or 'absent'}")


def _queue(account: str, data: bytes, offset: int) -> QueueBatches:
    count, size, zkp_size, bloom, filling, pending, next_index = _QUEUE_COUNTERS.unpack_from(data, offset)
    bounds.check(account, "num_batches", count, _BATCHES, minimum=_BATCHES)
    indices = {"currently_processing_batch_index": filling, "pending_batch_index": pending}
    bounds.check_all(account, _BATCHES - 1, **indices)
    bounds.check(account, "batch_size", size, bounds.LARGEST_BATCH, minimum=1)
    bounds.check(account, "zkp_batch_size", zkp_size, min(size, bounds.LARGEST_ZKP_BATCH), minimum=1)
    if size % zkp_size:
        raise bounds.refusal(account, f"batch_size is {size}, no multiple of zkp_batch_size {zkp_size}")
    bounds.check(account, "bloom_filter_capacity", bloom, bounds.LARGEST_BLOOM_BITS)
    bounds.check(account, "next_index of the queue", next_index, bounds.LARGEST_COUNT)
    starts = (offset + _QUEUE_COUNTERS.size + index * _BATCH_BYTES for index in range(_BATCHES))
    first, second = (_batch(account, data, start, size, zkp_size) for start in starts)
    return QueueBatches(size, zkp_size, bloom, filling, pending, next_index, (first, second))


def _batch(account: str, data: bytes, offset: int, queue_size: int, queue_zkp_size: int) -> Batch:
    """Decode a batch, which has the sizes of its queue."""
    fields = _BATCH.unpack_from(data, offset)
    open_elements, state, full, inserted, iterations, bloom, size, zkp_size, sequence, start, slot = fields[:11]
    root_index, slot_is_set, zeroed = fields[11:]
    bounds.check(account, "state of a batch", state, BatchState.FULL.value)
    bounds.check(account, "batch_size of a batch", size, queue_size, minimum=queue_size)
    bounds.check(account, "zkp_batch_size of a batch", zkp_size, queue_zkp_size, minimum=queue_zkp_size)
    bounds.check(account, "num_inserted of a batch", open_elements, zkp_size)
    bounds.check(account, "num_full_zkp_batches", full, size // zkp_size)
    bounds.check(account, "num_inserted_zkp_batches", inserted, full)
    bounds.check(account, "num_iters", iterations, bounds.MAXIMUM_BLOOM_ITERATIONS)
    bounds.check(account, "bloom_filter_capacity of a batch", bloom, bounds.LARGEST_BLOOM_BITS)
    counts = {"sequence_number of a batch": sequence, "start_index": start, "start_slot": slot}
    bounds.check_all(account, bounds.LARGEST_COUNT, **counts)
    return Batch(
        *(open_elements, BatchState(state), full, inserted, iterations, bloom, size, zkp_size, sequence, start),
        *(slot if slot_is_set else None, root_index, bool(zeroed)),
    )


def _hash_chains(data: bytes, offset: int) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    stores = []
    for _ in range(_BATCHES):
        if len(data) < offset + _STORE.size:
            raise MalformedAccount(f"{len(data)} bytes end before the hash chains at {offset}")
        length, capacity = _STORE.unpack_from(data, offset)
        if length > capacity or capacity > bounds.LARGEST_BATCH:
            raise MalformedAccount(f"a store of {length} hash chains in {capacity} entries")
        stores.append(tuple(_words(data, offset + _STORE.size, length)))
        offset += _STORE.size + _WORD * capacity
    return stores[0], stores[1]


def _words(data: bytes, offset: int, count: int) -> list[bytes]:
    end = offset + _WORD * count
    if len(data) < end:
        raise MalformedAccount(f"{len(data)} bytes end before {end}")
    return [bytes(data[start : start + _WORD]) for start in range(offset, end, _WORD)]
