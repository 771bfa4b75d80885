"""Queued elements as batches, checked before a proof is paid for; no I/O.

Elements must continue at the end of the tree, and their hash chain must be the one with which the programs will check
the proof: the one that the indexer states and, if it was read, the one in the account. Source:
forester/docs/reference/behaviour.md, "Root comparison".
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from forester.indexer.types import AddressQueue, InputQueue, OutputQueue
from forester.pipeline_v2.failures import ElementUnusable, HashChainDiffers, QueueMisaligned
from forester.pipeline_v2.staging.tree_head import TreeHead
from shared.witness_inputs import SpentAccount, chain


@dataclass(frozen=True)
class AppendBatch:
    """New leaves of a state tree from leaf ``start_index`` on."""

    start_index: int
    leaves: tuple[bytes, ...]
    hash_chain: bytes


@dataclass(frozen=True)
class NullifyBatch:
    """Spent accounts of a state tree from queue index ``start_index`` on."""

    start_index: int
    spent: tuple[SpentAccount, ...]
    hash_chain: bytes

    @property
    def greatest_leaf_index(self) -> int:
        """The last leaf that the batch writes."""
        return max(account.leaf_index for account in self.spent)


@dataclass(frozen=True)
class AddressBatch:
    """New values of an address tree from leaf ``start_index`` on."""

    start_index: int
    values: tuple[bytes, ...]
    hash_chain: bytes


class Alignment(enum.Enum):
    """Position of a batch of queued elements relative to the next index of the tree."""

    PROCESS = "process"
    SKIP = "skip"
    """The tree contains it already."""
    STALE = "stale"
    """The elements begin after the tree's next one: our tree is older than the indexer's queue."""
    GAP = "gap"
    """Elements between the tree's next one and the batch are missing."""


def align_batch(next_index: int, data_start: int, offset: int) -> Alignment:
    """Compare a batch ``offset`` elements into data from ``data_start`` on with the tree's next index."""
    if data_start > next_index:
        return Alignment.STALE
    start = data_start + offset
    if start == next_index:
        return Alignment.PROCESS
    return Alignment.SKIP if start < next_index else Alignment.GAP


def append_batches(queue: OutputQueue | None, head: TreeHead, maximum: int) -> list[AppendBatch]:
    """Return up to ``maximum`` batches of the output queue, beginning with the next one of the tree.

    Raises QueueMisaligned, HashChainDiffers and ElementUnusable, as the functions below.
    """
    if queue is None or not queue.leaf_indices:
        return []
    batches: list[AppendBatch] = []
    first, count = queue.leaf_indices[0], len(queue.leaf_indices)
    for number, batch in _aligned("append", first, count, head.next_index, head)[:maximum]:
        leaves = queue.account_hashes[batch]
        hash_chain = _checked_chain(
            *("append", number, leaves),
            *(queue.leaves_hash_chains, batch.start // head.zkp_batch_size),
            *(head.append_chains, len(batches)),
        )
        batches.append(AppendBatch(queue.leaf_indices[batch.start], leaves, hash_chain))
    return batches


def nullify_batches(queue: InputQueue | None, head: TreeHead, maximum: int) -> list[NullifyBatch]:
    """Return up to ``maximum`` batches of the input queue of a state tree; nullifiers are computed, not trusted."""
    if queue is None or not queue.leaf_indices:
        return []
    batches: list[NullifyBatch] = []
    count, first = len(queue.leaf_indices), queue.first_queue_index
    for number, batch in _aligned("nullify", first, count, head.nullifier_next_index, head)[:maximum]:
        columns = zip(
            queue.account_hashes[batch], queue.leaf_indices[batch], queue.tx_hashes[batch], strict=True
        )  # fmt: skip
        spent = tuple(SpentAccount(*row) for row in columns)
        nullifiers = _nullifiers(spent, number)
        for offset, (stated, computed) in enumerate(zip(queue.nullifiers[batch], nullifiers, strict=True)):
            if stated != computed:
                element = first + batch.start + offset
                raise ElementUnusable(f"nullifier {element} of the queue is not the one of its account and transaction")
        hash_chain = _checked_chain(
            *("nullify", number, nullifiers),
            *(queue.leaves_hash_chains, batch.start // head.zkp_batch_size),
            *(head.input_chains, len(batches)),
        )
        batches.append(NullifyBatch(first + batch.start, spent, hash_chain))
    return batches


def address_batches(queue: AddressQueue, head: TreeHead, maximum: int) -> list[AddressBatch]:
    """Return up to ``maximum`` whole batches of the queue of an address tree."""
    batches: list[AddressBatch] = []
    # A queue index is one smaller than the leaf index that its address gets.
    first = queue.queue_indices[0] + 1 if queue.queue_indices else head.next_index
    for number, batch in _aligned("address", first, len(queue.addresses), head.next_index, head)[:maximum]:
        values = queue.addresses[batch]
        hash_chain = _checked_chain(
            *("address", number, values),
            *(queue.leaves_hash_chains, batch.start // head.zkp_batch_size),
            *(head.input_chains, len(batches)),
        )
        batches.append(AddressBatch(first + batch.start, values, hash_chain))
    return batches


def _aligned(kind: str, data_start: int, count: int, next_index: int, head: TreeHead) -> list[tuple[int, slice]]:
    """Return the whole batches that are not in the tree yet, with their number in the data and their slices."""
    size = head.zkp_batch_size
    batches = []
    expected = next_index
    for number in range(count // size):
        offset = number * size
        match align_batch(expected, data_start, offset):
            case Alignment.PROCESS:
                batches.append((number, slice(offset, offset + size)))
                expected += size
            case Alignment.SKIP:
                continue
            case Alignment.STALE:
                raise QueueMisaligned(f"{kind} elements begin at {data_start}, the tree continues at {next_index}")
            case Alignment.GAP:
                raise QueueMisaligned(
                    f"{kind} batch {number} begins at {data_start + offset}, the tree continues at {next_index}: "
                    "no batch begins there"
                )
    return batches


def _checked_chain(
    kind: str,
    number: int,
    elements: Sequence[bytes],
    indexer_chains: Sequence[bytes],
    indexer_position: int,
    chain_chains: Sequence[bytes],
    chain_position: int,
) -> bytes:
    try:
        computed = chain(elements)
    except ValueError as error:
        raise ElementUnusable(f"{kind} batch {number}: {error}") from error
    sources = (("the indexer", indexer_chains, indexer_position), ("the account", chain_chains, chain_position))
    for source, stated, position in sources:
        for expected in islice(stated, position, position + 1):
            if expected != computed:
                raise HashChainDiffers(kind, number, source, expected, computed)
    return computed


def _nullifiers(spent: Sequence[SpentAccount], number: int) -> list[bytes]:
    try:
        return [account.nullifier for account in spent]
    except ValueError as error:
        raise ElementUnusable(f"nullify batch {number}: {error}") from error
