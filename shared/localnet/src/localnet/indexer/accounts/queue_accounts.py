"""Queues of V2 trees as the chain has them: counters and hash chains.

Source: forester/docs/reference/accounts.md, "Queue batches".
"""

from dataclasses import dataclass

from localnet.borsh import MalformedData, Reader

_TREE_BATCHES = 264
_TREE_ROOTS_CAPACITY = 696
_TREE_ROOTS = 704
_OUTPUT_QUEUE = b"queueacc"
_OUTPUT_BATCHES = 232
_OUTPUT_VALUES = 552
_VECTOR_HEADER = 16  # length and capacity
_HASH_BYTES = 32
BATCHES = 2


@dataclass(frozen=True, slots=True)
class QueueAccount:
    """A queue; ``next_index`` counts what ever came in, ``chains`` are the stores of both batches.

    A store has a chain for each zkp batch of its batch that has begun, the last one of an open zkp batch perhaps.
    """

    batch_size: int
    zkp_batch_size: int
    next_index: int
    chains: tuple[tuple[bytes, ...], ...]

    def chain_of(self, index: int) -> bytes | None:
        """Return the hash chain that contains the element of an index; None if a later batch has overwritten its batch.

        Batches are filled alternately and to the end, so that element i came into batch i // batch_size.
        """
        batch, place = divmod(index, self.batch_size)
        newest = (self.next_index - 1) // self.batch_size
        if not newest - BATCHES < batch <= newest:
            return None
        store, number = self.chains[batch % BATCHES], place // self.zkp_batch_size
        return store[number] if number < len(store) else b""


def decode_tree_queue(data: bytes) -> QueueAccount:
    """Decode the queue inside a V2 tree's account: nullifiers or addresses. Raise MalformedData if it is cut."""
    roots = Reader(data, _TREE_ROOTS_CAPACITY).u64()
    bloom_bits = Reader(data, _TREE_BATCHES + 24).u64()
    return _queue(data, _TREE_BATCHES, _TREE_ROOTS + _HASH_BYTES * roots + BATCHES * bloom_bits // 8)


def decode_output_queue(data: bytes) -> QueueAccount | None:
    """Decode an output queue; return None for another account; raise MalformedData if it is cut."""
    if data[:8] != _OUTPUT_QUEUE:
        return None
    batch_size = Reader(data, _OUTPUT_BATCHES + 8).u64()
    values = BATCHES * (_VECTOR_HEADER + _HASH_BYTES * batch_size)
    return _queue(data, _OUTPUT_BATCHES, _OUTPUT_VALUES + values)


def _queue(data: bytes, batches: int, stores: int) -> QueueAccount:
    sizes = Reader(data, batches + 8)
    batch_size, zkp_batch_size = sizes.u64(), sizes.u64()
    if not 0 < zkp_batch_size <= batch_size:
        raise MalformedData(f"batches of {batch_size} elements, proved by {zkp_batch_size}")
    chains = []
    at = stores
    for _ in range(BATCHES):
        head = Reader(data, at)
        length, capacity = head.u64(), head.u64()
        hashes = Reader(data, at + _VECTOR_HEADER)
        chains.append(tuple(hashes.key() for _ in range(min(length, capacity))))
        at += _VECTOR_HEADER + _HASH_BYTES * capacity
    return QueueAccount(batch_size, zkp_batch_size, Reader(data, batches + 48).u64(), tuple(chains))
