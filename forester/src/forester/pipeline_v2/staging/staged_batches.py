"""Batches applied to a sparse copy of a tree, giving proof requests that chain from root to root; no I/O.

The copy holds the nodes of the indexer's snapshot, checked against the snapshot's root.
Native Poseidon does the hashing outside the interpreter lock, so a caller may run ``next`` in a thread.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from forester.indexer.types import AddressQueue, Node, StateQueue
from forester.indexer.validation import LEVEL_BITS
from forester.pipeline_v2.failures import ElementUnusable, SnapshotContradicts
from forester.pipeline_v2.staging.batch_inputs import InputBatch, address_batches, append_batches, nullify_batches
from forester.pipeline_v2.staging.batch_plan import plan_order
from forester.pipeline_v2.staging.tree_head import TreeHead
from shared.requests.circuit_id import CircuitKind
from shared.requests.proof_wire import BatchRequest
from shared.requests.witness_inputs import batch_address_append_request, batch_append_request, batch_update_request
from shared.trees.indexed_merkle_tree import Element, IndexedMerkleTree, LowElementUnknown
from shared.trees.merkle_tree import MerkleTree, NodeUnknown, ProofWrong, zero_hash

_T = TypeVar("_T")
_Tree = TypeVar("_Tree", MerkleTree, IndexedMerkleTree)


@dataclass(frozen=True)
class PlannedBatch:
    """A batch that is still to be staged; ``build`` writes it to the tree and returns the proof request."""

    kind: CircuitKind
    start_index: int
    elements: int
    build: Callable[[], BatchRequest]


@dataclass(frozen=True)
class StagedBatch:
    """A batch with its proof request.

    The proof leads from ``old_root`` to ``new_root`` and only fits the tree at ``sequence``. ``start_index`` is its
    first leaf or queue index, ``elements`` their number.
    """

    kind: CircuitKind
    sequence: int
    start_index: int
    elements: int
    old_root: bytes
    new_root: bytes
    request: BatchRequest


class Staging:
    """The batches of one snapshot, in the order of their proofs."""

    def __init__(self, tree: MerkleTree | IndexedMerkleTree, sequence: int, order: Iterable[PlannedBatch]) -> None:
        self._tree = tree
        self._sequence = sequence
        self._waiting = deque(order)

    @property
    def waiting(self) -> int:
        """Number of batches that ``next`` can still return."""
        return len(self._waiting)

    def next(self) -> StagedBatch | None:
        """Stage and return the next batch, None after the last; raises StagingRefused, and then changes nothing."""
        if not self._waiting:
            return None
        batch = self._waiting[0]
        named = f"{batch.kind} batch {batch.start_index}"
        old_root, stage = self._tree.root, self._tree.stage()
        try:
            request = batch.build()
        except (LowElementUnknown, NodeUnknown) as error:
            self._tree.roll_back(stage)
            raise SnapshotContradicts(f"the snapshot lacks what {named} needs: {error}") from error
        except ValueError as error:
            self._tree.roll_back(stage)
            raise ElementUnusable(f"{named}: {error}") from error
        staged = StagedBatch(
            kind=batch.kind,
            sequence=self._sequence,
            start_index=batch.start_index,
            elements=batch.elements,
            old_root=old_root,
            new_root=self._tree.root,
            request=request,
        )
        self._tree.confirm(stage)
        self._waiting.popleft()
        self._sequence += 1
        return staged


def stage_state(
    queue: StateQueue, head: TreeHead, max_batches: int, first: Sequence[CircuitKind] = ()
) -> Staging | None:
    """Prepare up to ``max_batches`` batches of a state tree, None if there are none; raises StagingRefused.

    ``first`` are the kinds of the batches that were requested: the order begins with them, so that their proofs fit.
    The snapshot must have the head's root.
    """
    _require_root(queue.initial_root, head)
    appends = append_batches(queue.output_queue, head, max_batches)
    nullifies = nullify_batches(queue.input_queue, head, max_batches)
    if not appends and not nullifies:
        return None
    tree = MerkleTree.from_root(head.height, head.next_index, head.root)
    leaves: dict[int, bytes] = {}
    for part in (queue.output_queue, queue.input_queue):
        for index, leaf in zip(part.leaf_indices, part.leaves, strict=True) if part is not None else ():
            if leaves.setdefault(index, leaf) != leaf:
                raise SnapshotContradicts(f"the snapshot has two values for leaf {index}")
    _teach(lambda: tree.learn_many(leaves, _siblings(queue.nodes)))
    order = plan_order(
        *(first, len(appends), [max(account.leaf_index for account in batch.elements) for batch in nullifies]),
        next_index=head.next_index,
        zkp_batch_size=head.zkp_batch_size,
        maximum=max_batches,
    )
    sources = {
        CircuitKind.BATCH_APPEND: iter(_planned(CircuitKind.BATCH_APPEND, batch_append_request, tree, appends)),
        CircuitKind.BATCH_UPDATE: iter(_planned(CircuitKind.BATCH_UPDATE, batch_update_request, tree, nullifies)),
    }
    return Staging(tree, head.sequence, [next(sources[kind]) for kind in order])


def stage_addresses(queue: AddressQueue, head: TreeHead, max_batches: int) -> Staging | None:
    """Prepare up to ``max_batches`` batches of an address tree; as ``stage_state``."""
    if len(queue.addresses) < head.zkp_batch_size:
        return None  # an empty queue comes without a root
    _require_root(queue.initial_root, head)
    batches = address_batches(queue, head, max_batches)
    if not batches:
        return None
    try:
        tree = IndexedMerkleTree.from_frontier(2, head.height, head.next_index, queue.subtrees)
    except ValueError as error:
        raise SnapshotContradicts(f"the subtrees of the snapshot are unusable: {error}") from error
    if tree.root != head.root:
        raise SnapshotContradicts("the subtrees of the snapshot do not lead to its root")
    rows = zip(
        queue.low_element_indices,
        queue.low_element_values,
        queue.low_element_next_indices,
        queue.low_element_next_values,
        strict=True,
    )
    lows = {row[0]: Element(*row) for row in rows}
    _teach(lambda: tree.learn_many(lows.values(), _siblings(queue.nodes)))
    return Staging(
        tree, head.sequence, _planned(CircuitKind.BATCH_ADDRESS_APPEND, batch_address_append_request, tree, batches)
    )


def _planned(
    kind: CircuitKind,
    make: Callable[[_Tree, Sequence[_T]], BatchRequest],
    tree: _Tree,
    batches: Sequence[InputBatch[_T]],
) -> list[PlannedBatch]:
    """Return the batches; ``make`` writes the elements of one to the tree and returns its request."""
    return [
        PlannedBatch(kind, batch.start_index, len(batch.elements), partial(make, tree, batch.elements))
        for batch in batches
    ]


def _require_root(snapshot_root: bytes, head: TreeHead) -> None:
    if snapshot_root != head.root:
        raise SnapshotContradicts(f"the snapshot is of root 0x{snapshot_root.hex()}, the tree of 0x{head.root.hex()}")


def _siblings(nodes: Iterable[Node]) -> Callable[[int, int], bytes]:
    """Return a lookup of nodes by level and position; absent ones count as empty, which the root check verifies."""
    known = {node.index: node.hash for node in nodes}
    return lambda level, position: known.get((level << LEVEL_BITS) + position) or zero_hash(level)


def _teach(learn: Callable[[], None]) -> None:
    try:
        learn()
    except ProofWrong as error:
        raise SnapshotContradicts(f"the nodes of the snapshot contradict its root: {error}") from error
    except (ValueError, IndexError) as error:
        raise ElementUnusable(f"the snapshot holds a value that no tree has: {error}") from error
