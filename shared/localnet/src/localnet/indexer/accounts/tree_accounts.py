"""Tree accounts as the chain has them (forester/docs/reference/accounts.md, "V2 tree" and "V1 trees")."""

from dataclasses import dataclass

from localnet.borsh import Reader
from localnet.indexer.programs import TREE_OWNER_GROUP, TreeType

_BATCHED = b"BatchMta"
_STATE_V1 = bytes((172, 43, 172, 186, 29, 73, 219, 84))
_ADDRESS_V1 = bytes((11, 161, 175, 9, 212, 229, 73, 73))

_QUEUE_IN_METADATA = 96 + 56  # after access and rollover metadata
_V1_METADATA = 8
_V1_COUNTERS = 224
_V1_ROOTS_RING = 336
_V1_ROOTS = 1_222_016
_V2_METADATA = 16
_V2_COUNTERS = 232
_V2_NULLIFIER_NEXT = 544
_V2_ROOTS_RING = 680
_V2_ROOTS = 704
_HASH_BYTES = 32


@dataclass(frozen=True, slots=True)
class TreeAccount:
    """A tree from its account; ``queue`` of a V2 address tree is the tree itself."""

    key: bytes
    tree_type: TreeType
    queue: bytes
    height: int
    root_capacity: int
    sequence: int
    next_index: int
    nullifier_next: int
    root: bytes


def decode_tree_account(key: bytes, data: bytes) -> TreeAccount | None:
    """Decode the account of a tree of the protocol's group; None for any other account, MalformedData if it is cut."""
    kind = data[:8]
    if kind == _BATCHED:
        tree_type = TreeType(Reader(data, 8).u64())
        return _batched(key, tree_type, data) if _owner(data, _V2_METADATA) == TREE_OWNER_GROUP else None
    if kind in (_STATE_V1, _ADDRESS_V1):
        tree_type = TreeType.STATE_V1 if kind == _STATE_V1 else TreeType.ADDRESS_V1
        return _concurrent(key, tree_type, data) if _owner(data, _V1_METADATA) == TREE_OWNER_GROUP else None
    return None


def _owner(data: bytes, metadata: int) -> bytes:
    return Reader(data, metadata).key()


def _batched(key: bytes, tree_type: TreeType, data: bytes) -> TreeAccount:
    counters = Reader(data, _V2_COUNTERS)
    sequence, next_index = counters.u64(), counters.u64()
    height, capacity = counters.u32(), counters.u32()
    latest = (Reader(data, _V2_ROOTS_RING).u64() - 1) % capacity
    queue = Reader(data, _V2_METADATA + _QUEUE_IN_METADATA).key()
    return TreeAccount(
        key=key,
        tree_type=tree_type,
        queue=key if tree_type is TreeType.ADDRESS_V2 else queue,
        height=height,
        root_capacity=capacity,
        sequence=sequence,
        next_index=next_index,
        nullifier_next=Reader(data, _V2_NULLIFIER_NEXT).u64(),
        root=Reader(data, _V2_ROOTS + _HASH_BYTES * latest).key(),
    )


def _concurrent(key: bytes, tree_type: TreeType, data: bytes) -> TreeAccount:
    counters = Reader(data, _V1_COUNTERS)
    height, _, next_index, sequence = counters.u64(), counters.u64(), counters.u64(), counters.u64()
    ring = Reader(data, _V1_ROOTS_RING)
    capacity, _, _, last = ring.u64(), ring.u64(), ring.u64(), ring.u64()
    return TreeAccount(
        key=key,
        tree_type=tree_type,
        queue=Reader(data, _V1_METADATA + _QUEUE_IN_METADATA).key(),
        height=height,
        root_capacity=capacity,
        sequence=sequence,
        next_index=next_index,
        nullifier_next=0,
        root=Reader(data, _V1_ROOTS + _HASH_BYTES * last).key(),
    )
