"""Queued elements as batches, checked before a proof is paid for; no I/O.

Elements must continue at the end of the tree, and their hash chain must be the one in the account, with which the
programs will check the proof. The chains and nullifiers that an indexer states are not read. Elements without a chain
in the account are not used: the programs would refuse their proof.
Source: forester/docs/reference/behaviour.md, "Root comparison".
"""

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from forester.indexer.types import AddressQueue, InputQueue, OutputQueue
from forester.pipeline_v2.failures import ElementUnusable, HashChainDiffers, QueueMisaligned
from forester.pipeline_v2.staging.tree_head import TreeHead
from shared.requests.witness_inputs import SpentAccount, chain

_T = TypeVar("_T")


@dataclass(frozen=True)
class InputBatch(Generic[_T]):
    """A batch of queued elements from ``start_index`` on.

    That is the leaf index of new leaves and addresses, the queue index of spent accounts.
    """

    start_index: int
    elements: Sequence[_T]


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


def append_batches(queue: OutputQueue | None, head: TreeHead, maximum: int) -> list[InputBatch[bytes]]:
    """Return up to ``maximum`` batches of the output queue that the account has, beginning with the tree's next one.

    Raises QueueMisaligned, HashChainDiffers and ElementUnusable, as the functions below.
    """
    if queue is None or not queue.leaf_indices:
        return []
    aligned = _aligned("append", queue.leaf_indices[0], len(queue.leaf_indices), head.next_index, head)
    return _checked("append", aligned, queue.account_hashes, head.append_chains[:maximum], lambda elements: elements)


def nullify_batches(queue: InputQueue | None, head: TreeHead, maximum: int) -> list[InputBatch[SpentAccount]]:
    """Return up to ``maximum`` batches of the input queue of a state tree."""
    if queue is None or not queue.leaf_indices:
        return []
    count, first = len(queue.leaf_indices), queue.first_queue_index
    spent = [SpentAccount(*row) for row in zip(queue.account_hashes, queue.leaf_indices, queue.tx_hashes, strict=True)]

    aligned = _aligned("nullify", first, count, head.nullifier_next_index, head)
    chains = head.input_chains[:maximum]
    return _checked("nullify", aligned, spent, chains, lambda elements: [account.nullifier for account in elements])


def address_batches(queue: AddressQueue, head: TreeHead, maximum: int) -> list[InputBatch[bytes]]:
    """Return up to ``maximum`` whole batches of the queue of an address tree."""
    # A queue index is one smaller than the leaf index that its address gets.
    first = queue.queue_indices[0] + 1 if queue.queue_indices else head.next_index
    aligned = _aligned("address", first, len(queue.addresses), head.next_index, head)
    return _checked("address", aligned, queue.addresses, head.input_chains[:maximum], lambda elements: elements)


def _aligned(kind: str, data_start: int, count: int, next_index: int, head: TreeHead) -> list[tuple[int, int, slice]]:
    """Return the whole batches that are not in the tree yet: number in the data, start index, slice of the data."""
    size = head.zkp_batch_size
    batches = []
    expected = next_index
    for number in range(count // size):
        offset = number * size
        match align_batch(expected, data_start, offset):
            case Alignment.PROCESS:
                batches.append((number, expected, slice(offset, offset + size)))
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


def _checked(
    kind: str,
    aligned: Sequence[tuple[int, int, slice]],
    elements: Sequence[_T],
    chains: Sequence[bytes],
    hashed: Callable[[Sequence[_T]], Sequence[bytes]],
) -> list[InputBatch[_T]]:
    """Return a batch for each chain of the account, which its elements must have; ``hashed`` returns what is hashed."""
    batches = []
    for (number, start, part), expected in zip(aligned, chains, strict=False):
        batch = InputBatch(start, elements[part])
        try:
            computed = chain(hashed(batch.elements))
        except ValueError as error:
            raise ElementUnusable(f"{kind} batch {number}: {error}") from error
        if computed != expected:
            raise HashChainDiffers(kind, number, expected, computed)
        batches.append(batch)
    return batches
