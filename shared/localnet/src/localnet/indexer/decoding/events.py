"""Typed events for the changes of a transaction, and the decoding of tree events.

Source: forester/docs/reference/indexer.md, "Public events".
"""

from dataclasses import dataclass
from enum import Enum

from localnet.borsh import MalformedData, Reader
from localnet.indexer.decoding.hashing import CompressedAccount
from localnet.indexer.programs import TreeType
from shared.trees.indexed_merkle_tree import Element

NEXT = -1
"""Index that an instruction does not contain: the next one of the tree or queue."""


@dataclass(frozen=True, slots=True)
class TreeRef:
    """The tree and the queue that an event names; both are the same key if the event names only one."""

    tree: bytes
    queue: bytes
    tree_type: TreeType


@dataclass(frozen=True, slots=True)
class Output:
    """A created leaf. ``sequence`` is that of the V1 tree right after it; a V2 leaf waits in the output queue.

    ``account`` is None for a leaf that was queued without its account.
    """

    hash: bytes
    leaf_index: int
    place: TreeRef
    sequence: int | None
    account: CompressedAccount | None


@dataclass(frozen=True, slots=True)
class Input:
    """A spent leaf. ``queue_index`` is its position in a V2 tree's nullifier queue; a V1 queue has no order."""

    hash: bytes
    leaf_index: int | None
    place: TreeRef | None
    queue_index: int | None
    nullifier: bytes | None


@dataclass(frozen=True, slots=True)
class NewAddress:
    """A queued address; ``queue_index`` is None for a V1 tree, whose queue has no order."""

    address: bytes
    tree: bytes
    queue_index: int | None


@dataclass(frozen=True, slots=True)
class PublicEvent:
    """One unit of a user's transaction; ``tx_hash`` is zero where none was computed."""

    tx_hash: bytes
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    addresses: tuple[NewAddress, ...]


@dataclass(frozen=True, slots=True)
class NullifyEvent:
    """Cleared leaves of a V1 state tree; ``sequence`` is that of the first write."""

    tree: bytes
    leaf_indices: tuple[int, ...]
    sequence: int


@dataclass(frozen=True, slots=True)
class IndexedUpdate:
    """An inserted address: its low element after the insertion, and the new element, with the leaves of both."""

    low: Element
    new: Element
    leaves: tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class IndexedEvent:
    """Addresses inserted into a V1 tree by two writes each; ``sequence`` is that of the first write."""

    tree: bytes
    updates: tuple[IndexedUpdate, ...]
    sequence: int


class BatchKind(Enum):
    """Effect of a batch on a V2 tree; the value is the tag of the event."""

    APPEND = 3
    NULLIFY = 4
    ADDRESS_APPEND = 5


@dataclass(frozen=True, slots=True)
class BatchEvent:
    """One zkp batch put into a V2 tree; the indices are those of the tree's counter for this kind of batch."""

    kind: BatchKind
    tree: bytes
    batch_index: int
    zkp_batch_index: int
    zkp_batch_size: int
    old_next_index: int
    new_next_index: int
    new_root: bytes
    root_index: int
    sequence: int
    output_queue: bytes | None


TreeEvent = NullifyEvent | IndexedEvent | BatchEvent
Event = PublicEvent | TreeEvent

_NULLIFY_TAG = 1
_INDEXED_TAG = 2


def decode_tree_event(data: bytes) -> TreeEvent:
    """Decode the payload of a no-op instruction that reports a change of a tree; MalformedData otherwise."""
    reader = Reader(data)
    tag = reader.u8()
    event: TreeEvent
    if tag == _NULLIFY_TAG:
        event = NullifyEvent(reader.key(), tuple(reader.vector(reader.u64)), reader.u64())
    elif tag == _INDEXED_TAG:
        event = IndexedEvent(reader.key(), tuple(reader.vector(lambda: _indexed_update(reader))), reader.u64())
    elif tag in {kind.value for kind in BatchKind}:
        event = _batch_event(BatchKind(tag), reader)
    else:
        raise MalformedData(f"there is no tree event with tag {tag}")
    if reader.remaining:
        raise MalformedData(f"{reader.remaining} bytes after a tree event")
    return event


def _indexed_update(reader: Reader) -> IndexedUpdate:
    low, low_leaf = _indexed_element(reader), reader.key()
    new, new_leaf = _indexed_element(reader), reader.key()
    return IndexedUpdate(low, new, (low_leaf, new_leaf))


def _indexed_element(reader: Reader) -> Element:
    value, next_index, next_value, index = reader.key(), reader.u64(), reader.key(), reader.u64()
    return Element(index, value, next_index, next_value)


def _batch_event(kind: BatchKind, reader: Reader) -> BatchEvent:
    return BatchEvent(
        kind=kind,
        tree=reader.key(),
        batch_index=reader.u64(),
        zkp_batch_index=reader.u64(),
        zkp_batch_size=reader.u64(),
        old_next_index=reader.u64(),
        new_next_index=reader.u64(),
        new_root=reader.key(),
        root_index=reader.u32(),
        sequence=reader.u64(),
        output_queue=reader.option(reader.key),
    )
