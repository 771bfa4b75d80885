"""Zero-copy accounts of V1: concurrent trees and the hash sets that are their queues.

Source: forester/docs/reference/accounts.md, "V1 trees" and "V1 queue".
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from forester.chain import bounds
from forester.chain.tree_metadata import (
    ADDRESS_TREE_V1_DISCRIMINATOR,
    QUEUE_V1_DISCRIMINATOR,
    STATE_TREE_V1_DISCRIMINATOR,
    Metadata,
    TreeKind,
    decode_metadata,
)
from forester.errors import MalformedAccount
from forester.units import Root

TREE_HEAD_BYTES = 384
"""Length of the slice that ``decode_tree`` needs."""
QUEUE_HEAD_BYTES = 256
"""Offset of the cells of a queue."""

_WORD = 32
_CELL = struct.Struct("<QQ32s")
_COUNTERS = struct.Struct("<4Q")
_RING = struct.Struct("<4Q")
_PATH_NODE_BYTES = 33
_TREE = "V1 tree"


@dataclass(frozen=True)
class ConcurrentTree:
    """A V1 tree.

    ``changelog_index`` is the newest entry of the changelog, ``root_index`` the position of the latest root.
    """

    kind: TreeKind
    metadata: Metadata
    height: int
    canopy_depth: int
    next_index: int
    sequence_number: int
    changelog_capacity: int
    changelog_index: int
    root_history_capacity: int
    root_index: int


@dataclass(frozen=True)
class QueueCell:
    """An element of a V1 queue that waits: its cell and its value of 32 bytes."""

    index: int
    value: bytes


@dataclass(frozen=True)
class HashSetQueue:
    """The head of a V1 queue."""

    metadata: Metadata
    capacity: int
    sequence_threshold: int


def decode_tree(data: bytes) -> ConcurrentTree:
    """Decode the head of a V1 tree; MalformedAccount if it is none, as for all decoders here."""
    kinds = {STATE_TREE_V1_DISCRIMINATOR: TreeKind.STATE_V1, ADDRESS_TREE_V1_DISCRIMINATOR: TreeKind.ADDRESS_V1}
    if data[:8] not in kinds or len(data) < TREE_HEAD_BYTES:
        raise MalformedAccount(f"not a V1 tree: {len(data)} bytes, discriminator {data[:8].hex() or 'absent'}")
    height, canopy, next_index, sequence_number = _COUNTERS.unpack_from(data, 224)
    changelog_capacity, _, _, changelog_last = _RING.unpack_from(data, 304)
    root_capacity, _, _, root_last = _RING.unpack_from(data, 336)
    kind = kinds[data[:8]]
    bounds.check(_TREE, "height", height, kind.height, minimum=1)
    bounds.check(_TREE, "canopy_depth", canopy, height)
    bounds.check(_TREE, "next_index", next_index, 2**height)
    bounds.check(_TREE, "sequence_number", sequence_number, bounds.LARGEST_COUNT)
    _check_ring(_TREE, "changelog", changelog_capacity, changelog_last)
    _check_ring(_TREE, "roots", root_capacity, root_last)
    return ConcurrentTree(
        *(kind, decode_metadata(data, 8), height, canopy, next_index, sequence_number),
        *(changelog_capacity, changelog_last, root_capacity, root_last),
    )


def root_offset(tree: ConcurrentTree) -> int:
    """Return the offset of the 32 bytes of the latest root in the account."""
    entry = -(-(tree.height * _PATH_NODE_BYTES) // 8) * 8 + 8
    return TREE_HEAD_BYTES + _WORD * tree.height + entry * tree.changelog_capacity + _WORD * tree.root_index


def latest_root(tree: ConcurrentTree, data: bytes) -> Root:
    """Return the latest root; needs the whole account."""
    start = root_offset(tree)
    if len(data) < start + _WORD:
        raise MalformedAccount(f"{len(data)} bytes end before the root at {start}")
    return Root(bytes(data[start : start + _WORD]))


def decode_queue(data: bytes) -> HashSetQueue:
    """Decode the head of a V1 queue."""
    if data[:8] != QUEUE_V1_DISCRIMINATOR or len(data) < QUEUE_HEAD_BYTES:
        raise MalformedAccount(f"not a V1 queue: {len(data)} bytes, discriminator {data[:8].hex() or 'absent'}")
    capacity, threshold = struct.unpack_from("<QQ", data, 232)
    bounds.check("V1 queue", "capacity", capacity, bounds.LARGEST_V1_QUEUE, minimum=1)
    bounds.check("V1 queue", "sequence_threshold", threshold, bounds.LARGEST_COUNT)
    return HashSetQueue(decode_metadata(data, 8), capacity, threshold)


def pending_cells(data: bytes, start: int = 0) -> Iterator[QueueCell]:
    """Yield the elements of a V1 queue that wait, from cell ``start`` on; needs the whole account."""
    queue = decode_queue(data)
    end = QUEUE_HEAD_BYTES + queue.capacity * _CELL.size
    if len(data) < end:
        raise MalformedAccount(f"a V1 queue of {queue.capacity} cells in {len(data)} bytes")
    for index, (tag, _, value) in enumerate(_CELL.iter_unpack(memoryview(data)[QUEUE_HEAD_BYTES:end])):
        if tag == 0 and index >= start:
            yield QueueCell(index, value)


def _check_ring(account: str, name: str, capacity: int, last: int) -> None:
    bounds.check(account, f"capacity of the {name}", capacity, bounds.LARGEST_RING, minimum=1)
    bounds.check(account, f"last index of the {name}", last, capacity - 1)
