"""Queues, and what a forester needs to process them (forester/docs/reference/indexer.md, "Queue elements")."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Generic, TypeVar

from localnet.base58 import encode
from localnet.indexer.api.errors import invalid_key, validation
from localnet.indexer.api.params import LeafIndices, QueueElements, QueuePart, QueueTrees
from localnet.indexer.api.proofs import sound_tree
from localnet.indexer.api.shapes import Json, Snapshot
from localnet.indexer.database.sparse_tree import SparseTree, node_number
from localnet.indexer.database.tree_events import low_element
from localnet.indexer.database.trees import Tree, all_trees
from localnet.indexer.programs import QueueType, TreeType
from shared.trees.field import ZERO
from shared.trees.indexed_merkle_tree import Element
from shared.trees.merkle_tree import zero_hash
from shared.trees.poseidon import hash_chain

_MOST_ELEMENTS = 30_000
_STATE_BATCH = 500
_ADDRESS_BATCH = 250
_ADDRESS_STEP = 250
_LARGEST_INTEGER = 2**63 - 1  # of SQLite
_MOST_BYTES = 50_000_000
"""A page ends where its answer would be longer."""
_NODE_BYTES, _OUTPUT_BYTES, _INPUT_BYTES, _ADDRESS_BYTES = 86, 106, 200, 175
"""Maximum sizes as JSON: of a node, and of an element of each queue."""


@dataclass(frozen=True, slots=True)
class _Queued:
    """An element of a state queue. ``index`` counts in its queue: leaf index, or position in the nullifier queue."""

    index: int
    leaf_index: int
    hash: bytes
    tx_hash: bytes
    nullifier: bytes


@dataclass(frozen=True, slots=True)
class _QueuedAddress:
    """An address in a queue, and its low element."""

    index: int
    address: bytes
    low: Element

    @property
    def leaf_index(self) -> int:
        """Index of the leaf whose path is needed: that of the low element."""
        return self.low.index


Queued = TypeVar("Queued", _Queued, _QueuedAddress)


@dataclass(frozen=True, slots=True)
class _Page(Generic[Queued]):
    """Elements of one queue, which an answer has by whole steps; ``element_bytes`` is the length of one, at most."""

    elements: list[Queued]
    step: int
    element_bytes: int


def get_queue_elements(snapshot: Snapshot, params: QueueElements) -> Json:
    """Answer getQueueElements. All parts of an answer show one moment and one root."""
    if params.output_queue is None and params.input_queue is None and params.address_queue is None:
        raise validation("At least one queue must be requested")
    for part in (params.output_queue, params.input_queue):
        if part is not None and part.limit > _MOST_ELEMENTS:
            raise validation(f"Too many queue elements requested {part.limit}. Maximum allowed: {_MOST_ELEMENTS}")
    if params.address_queue is not None and params.address_queue.limit > _MOST_ELEMENTS:
        limit = params.address_queue.limit
        raise validation(f"Too many addresses requested {limit}. Maximum allowed: {_MOST_ELEMENTS}")
    tree = sound_tree(snapshot, params.tree, "tree")
    answer: Json = {"context": {"slot": snapshot.slot}}
    if params.output_queue is not None or params.input_queue is not None:
        if tree.tree_type is not TreeType.STATE_V2 or params.address_queue is not None:
            raise validation(f"Tree {encode(tree.key)} has no such queue")
        state = _state_queue(snapshot, tree, params.output_queue, params.input_queue)
        if state is not None:
            answer["stateQueue"] = state
    elif params.address_queue is not None:
        if tree.tree_type is not TreeType.ADDRESS_V2:
            raise validation(f"Tree {encode(tree.key)} has no such queue")
        answer["addressQueue"] = _address_queue(snapshot, tree, params.address_queue)
    return answer


def _state_queue(snapshot: Snapshot, tree: Tree, output: QueuePart | None, spent: QueuePart | None) -> Json | None:
    """Return both queues of a state tree; None if neither has a full batch."""
    nodes = tree.nodes(snapshot.connection)
    outputs, inputs = _fitting(
        nodes,
        _queued(snapshot, tree, output, "leaf_index", tree.next_index, _OUTPUT_BYTES),
        _queued(snapshot, tree, spent, "queue_index", tree.nullifier_next, _INPUT_BYTES),
    )
    if not outputs and not inputs:
        return None
    positions = {element.leaf_index for element in [*outputs, *inputs]}
    known = _listed_nodes(nodes, positions)
    answer: Json = {
        "nodes": _nodes_json(known),
        "initialRoot": encode(tree.root),
        "rootSeq": tree.sequence,
    }
    if output is not None:
        answer["outputQueue"] = _output_queue(outputs, known, _batch(output, _STATE_BATCH))
    if spent is not None:
        answer["inputQueue"] = _input_queue(inputs, known, _batch(spent, _STATE_BATCH))
    return answer


def _queued(
    snapshot: Snapshot, tree: Tree, part: QueuePart | None, column: str, head: int, element_bytes: int
) -> _Page[_Queued]:
    """Return a page of whole batches, empty if none is requested; raise RpcError if its start was processed already."""
    if part is None:
        return _Page([], 1, element_bytes)
    start = head if part.start_index is None else min(max(head, part.start_index), _LARGEST_INTEGER)
    rows = snapshot.connection.execute(
        f"SELECT {column}, leaf_index, hash, tx_hash, nullifier FROM accounts"  # noqa: S608
        f" WHERE tree = ? AND {column} >= ? ORDER BY {column} LIMIT ?",
        (tree.id, start, part.limit),
    ).fetchall()
    if rows and part.start_index is not None and rows[0][0] > part.start_index:
        raise validation(
            f"Requested start_index {part.start_index} but first_queue_index {rows[0][0]} is later (possible pruning)"
        )
    batch = _batch(part, _STATE_BATCH)
    kept = rows[: len(rows) - len(rows) % batch]
    elements = [_Queued(row[0], row[1], row[2], row[3] or ZERO, row[4] or ZERO) for row in kept]
    return _Page(elements, batch, element_bytes)


def _output_queue(elements: list[_Queued], known: dict[int, bytes], batch: int) -> Json:
    first = elements[0].index if elements else 0
    return {
        "leafIndices": [element.leaf_index for element in elements],
        "accountHashes": [encode(element.hash) for element in elements],
        "leaves": [encode(known.get(element.leaf_index, ZERO)) for element in elements],
        "firstQueueIndex": first,
        "nextIndex": first,
        "leavesHashChains": _chains([element.hash for element in elements], batch),
    }


def _input_queue(elements: list[_Queued], known: dict[int, bytes], batch: int) -> Json:
    return {
        "leafIndices": [element.leaf_index for element in elements],
        "accountHashes": [encode(element.hash) for element in elements],
        "leaves": [encode(known.get(element.leaf_index, ZERO)) for element in elements],
        "txHashes": [encode(element.tx_hash) for element in elements],
        "nullifiers": [encode(element.nullifier) for element in elements],
        "firstQueueIndex": elements[0].index if elements else 0,
        "leavesHashChains": _chains([element.nullifier for element in elements], batch),
    }


def _address_queue(snapshot: Snapshot, tree: Tree, part: QueuePart) -> Json:
    start = min(part.start_index or 0, _LARGEST_INTEGER)
    rows = snapshot.connection.execute(
        "SELECT queue_index, address FROM address_queue WHERE tree = ? AND queue_index >= ?"
        " ORDER BY queue_index LIMIT ?",
        (tree.id, start, part.limit),
    ).fetchall()
    nodes = tree.nodes(snapshot.connection)
    queued = [
        _QueuedAddress(index, address, low_element(snapshot.connection, tree, address)) for index, address in rows
    ]
    [queued] = _fitting(nodes, _Page(queued, _ADDRESS_STEP, _ADDRESS_BYTES))
    lows = [one.low for one in queued]
    known = _listed_nodes(nodes, {low.index for low in lows})
    frontier = nodes.frontier(tree.next_index)
    return {
        "addresses": [encode(one.address) for one in queued],
        "queueIndices": [one.index for one in queued],
        "nodes": _nodes_json(known),
        "lowElementIndices": [low.index for low in lows],
        "lowElementValues": [encode(low.value) for low in lows],
        "lowElementNextIndices": [low.next_index for low in lows],
        "lowElementNextValues": [encode(low.next_value) for low in lows],
        "leavesHashChains": _chains([one.address for one in queued], _batch(part, _ADDRESS_BATCH)),
        "initialRoot": encode(tree.root if queued else ZERO),
        "startIndex": tree.next_index,
        "subtrees": [encode(node) for node in frontier],
        "rootSeq": tree.sequence if queued else 0,
    }


def _batch(part: QueuePart, usual: int) -> int:
    return part.zkp_batch_size or usual


def _fitting(nodes: SparseTree, *pages: _Page[Queued]) -> list[list[Queued]]:
    """Return the part of each page that fits into one answer: pages grow alternately until the answer is long enough.

    Raise RpcError if not even the first step fits. The caller's next page begins with what was omitted.
    """
    most_nodes = 2 * nodes.height + 1  # of one element, if it shares none with others
    if sum(len(page.elements) * (page.element_bytes + most_nodes * _NODE_BYTES) for page in pages) <= _MOST_BYTES:
        return [page.elements for page in pages]
    taken, numbers, length = [0] * len(pages), set[int](), 0
    for start in count():
        parts = [page.elements[start * page.step : (start + 1) * page.step] for page in pages]
        if not any(parts):
            break
        for which, (page, part) in enumerate(zip(pages, parts, strict=True)):
            for element in part:
                numbers.add(node_number(0, element.leaf_index))
                numbers.update(nodes.siblings(element.leaf_index), nodes.ancestors(element.leaf_index))
            length += page.element_bytes * len(part)
            if length + _NODE_BYTES * len(numbers) > _MOST_BYTES:
                if not any(taken):
                    raise validation(
                        f"A batch of {len(part)} elements makes an answer of more than {_MOST_BYTES} bytes"
                    )
                return [page.elements[:some] for page, some in zip(pages, taken, strict=True)]
            taken[which] += len(part)
    return [page.elements for page in pages]


def _listed_nodes(nodes: SparseTree, positions: Iterable[int]) -> dict[int, bytes]:
    """Return leaves, their siblings and ancestors by number; siblings always, the others if they are stored."""
    siblings: set[int] = set()
    others: set[int] = set()
    for position in positions:
        siblings.update(nodes.siblings(position))
        others.update((node_number(0, position), *nodes.ancestors(position)))
    found = nodes.stored(siblings | others)
    return {number: zero_hash(number >> 56) for number in siblings} | found


def _nodes_json(known: dict[int, bytes]) -> list[Json]:
    return [{"index": number, "hash": encode(known[number])} for number in sorted(known)]


def _chains(values: Sequence[bytes], batch: int) -> list[str]:
    """Return one hash chain per whole batch."""
    whole = len(values) - len(values) % batch
    return [encode(hash_chain(b"".join(values[start : start + batch]))) for start in range(0, whole, batch)]


def get_queue_info(snapshot: Snapshot, params: QueueTrees) -> Json:
    """Answer getQueueInfo: sizes of the queues of V2 trees."""
    wanted = None if params.trees is None else set(params.trees)
    queues: list[Json] = []
    for tree in all_trees(snapshot.connection):
        if wanted is not None and tree.key not in wanted:
            continue
        if tree.tree_type is TreeType.STATE_V2:
            queues.append(_info(tree, QueueType.INPUT_STATE_V2, tree.input_next - tree.nullifier_next))
            queues.append(_info(tree, QueueType.OUTPUT_STATE_V2, tree.output_next - tree.next_index))
        elif tree.tree_type is TreeType.ADDRESS_V2:
            queues.append(_info(tree, QueueType.ADDRESS_V2, tree.address_next - (tree.next_index - 1)))
    return {"queues": queues, "slot": snapshot.slot}


def _info(tree: Tree, kind: QueueType, size: int) -> Json:
    return {"tree": encode(tree.key), "queue": encode(tree.queue), "queueType": int(kind), "queueSize": size}


def get_queue_leaf_indices(snapshot: Snapshot, params: LeafIndices) -> Json:
    """Answer getQueueLeafIndices: spent accounts not yet nullified in the tree, in queue order."""
    if params.limit > _MOST_ELEMENTS:
        raise validation(f"Too many queue elements requested {params.limit}. Maximum allowed: {_MOST_ELEMENTS}")
    tree = sound_tree(snapshot, params.tree, "tree")
    if tree.tree_type is not TreeType.STATE_V2:
        raise invalid_key("tree")
    start = min(max(params.start_index or 0, tree.nullifier_next), _LARGEST_INTEGER)
    rows = snapshot.connection.execute(
        "SELECT hash, queue_index, leaf_index FROM accounts WHERE tree = ? AND queue_index >= ?"
        " ORDER BY queue_index LIMIT ?",
        (tree.id, start, params.limit),
    )
    return snapshot.answer(
        [{"hash": encode(leaf), "queueIndex": index, "leafIndex": place} for leaf, index, place in rows]
    )
