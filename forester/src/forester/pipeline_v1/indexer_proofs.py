"""Proofs for the elements of a V1 queue, requested in groups, several groups at once.

An indexer refuses a whole group because of one element that it does not know, or knows to be done: such a group is
halved until the element is isolated.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from forester.chain.concurrent_accounts import QueueCell
from forester.chain.programs.registry import V1_PROOF_LENGTH, LowAddress
from forester.chain.tree_metadata import TreeKind, TreeMetadata
from forester.indexer.client import IndexerClient
from forester.indexer.failures import AnswerWrong, IndexerRefused
from forester.indexer.types import AccountProof, AddressProof, Hash32
from forester.observability.metrics import Metrics


@dataclass(frozen=True)
class Proof:
    """A leaf of a V1 tree with all its siblings, leaf level first, at the root of ``sequence``.

    The leaf is the queued value of a state tree, that of the low element ``low`` of an address tree.
    """

    cell: QueueCell
    sequence: int
    root: bytes
    leaf_index: int
    siblings: tuple[bytes, ...]
    low: LowAddress | None = None


class ProofSource(Protocol):
    """A source of proofs."""

    async def of(self, cells: Sequence[QueueCell]) -> list[Proof]:
        """Return the proofs of some elements, without those that have none. Raises EndpointError."""

    def contradicted(self) -> None:
        """Record that the chain contradicts proofs."""


class IndexerProofs:
    """Proofs of one tree from an indexer, for one group of elements a call."""

    def __init__(self, indexer: IndexerClient, tree: TreeMetadata, metrics: Metrics) -> None:
        self._indexer = indexer
        self._tree = tree
        self._metrics = metrics
        self._key = Hash32(bytes(tree.address))
        self._is_state = tree.kind is TreeKind.STATE_V1
        self._operation = (
            "get_multiple_compressed_account_proofs" if self._is_state else "get_multiple_new_address_proofs"
        )

    async def of(self, cells: Sequence[QueueCell]) -> list[Proof]:
        """Return the proofs of some elements; for a group of n elements at most 4 log2 n + 4 parts are requested."""
        calls_left = 4 * len(cells).bit_length() + 4
        found: list[Proof] = []
        parts = [list(cells)] if cells else []
        while parts:
            part = parts.pop()
            calls_left -= 1
            try:
                found += await self._exchanged(part)
            except (IndexerRefused, AnswerWrong) as error:
                # A refusal due to the indexer itself says nothing about the elements.
                if (isinstance(error, IndexerRefused) and error.of_indexer) or calls_left <= 0:
                    raise
                if len(part) > 1:
                    parts += [part[len(part) // 2 :], part[: len(part) // 2]]
        return found

    def contradicted(self) -> None:
        """Use the other indexer, if there is one, for a while: the chain contradicts proofs of this one."""
        self._indexer.contradicted()

    async def _exchanged(self, cells: Sequence[QueueCell]) -> list[Proof]:
        counted = self._metrics.indexer_proofs
        labels = (self._tree.kind.label, str(self._tree.address))
        counted.labels(*labels, "requested").inc(len(cells))
        began = time.monotonic()
        try:
            proofs = await (self._of_leaves(cells) if self._is_state else self._of_addresses(cells))
        finally:
            took = time.monotonic() - began
            self._metrics.indexer_seconds.labels(self._operation, self._tree.kind.label).observe(took)
        counted.labels(*labels, "received").inc(len(proofs))
        return proofs

    async def _of_leaves(self, cells: Sequence[QueueCell]) -> list[Proof]:
        answers = await self._indexer.account_proofs([Hash32(cell.value) for cell in cells])
        pairs = zip(cells, answers, strict=True)
        return [leaf_proof(cell, answer) for cell, answer in pairs if answer.merkle_tree == self._key]

    async def _of_addresses(self, cells: Sequence[QueueCell]) -> list[Proof]:
        answers = await self._indexer.address_proofs([(Hash32(cell.value), self._key) for cell in cells])
        return [absence_proof(cell, answer) for cell, answer in zip(cells, answers, strict=True)]


def leaf_proof(cell: QueueCell, answer: AccountProof) -> Proof:
    """Return the indexer's proof of a leaf of a state tree."""
    siblings = tuple(bytes(node) for node in answer.proof)
    return Proof(cell, answer.root_seq, bytes(answer.root), answer.leaf_index, siblings)


def absence_proof(cell: QueueCell, answer: AddressProof) -> Proof:
    """Return the indexer's proof that an address is absent: that of the element below it."""
    siblings = tuple(bytes(node) for node in answer.proof)
    low = LowAddress(
        index=answer.low_element_leaf_index,
        value=bytes(answer.lower_range_address),
        next_index=answer.next_index,
        next_value=bytes(answer.higher_range_address),
        proof=siblings[:V1_PROOF_LENGTH],
    )
    return Proof(cell, answer.root_seq, bytes(answer.root), low.index, siblings, low)
