"""Checks of the indexer's answers for contradictions; no I/O.

An answer that passes is consistent with itself and with the request. Code that knows the chain's state checks that it
agrees with the chain.
Source: forester/docs/reference/indexer.md, "Queue elements" and "Checks of queue elements".
"""

from collections.abc import Mapping, Sequence

from forester.indexer.failures import AnswerWrong
from forester.indexer.types import (
    AccountProof,
    AddressProof,
    AddressQueue,
    CompressedAccount,
    Hash32,
    InputQueue,
    Node,
    OutputQueue,
    QueueElements,
    QueueQuery,
    StateQueue,
    Validity,
)

LEVEL_BITS = 56
"""Nodes are numbered level * 2^56 + position."""

V1_HEIGHT = 26
_HEIGHTS = range(1, 41)
_METHOD = "getQueueElements"


def check_health(answer: str) -> None:
    """Raise AnswerWrong unless an indexer reports itself healthy."""
    if answer != "ok":
        raise AnswerWrong("getIndexerHealth", "$.result", f"'{answer[:80]}' where 'ok' is expected")


def check_queue_elements(
    answer: QueueElements, output: QueueQuery | None, spent: QueueQuery | None, address: QueueQuery | None
) -> None:
    """Raise AnswerWrong, naming the member, unless the answer can belong to these queries."""
    state = answer.state_queue
    if state is not None:
        if output is None and spent is None:
            raise AnswerWrong(_METHOD, "$.result.stateQueue", "not requested")
        _check_state(state, output, spent)
    if address is not None:
        if answer.address_queue is None:
            raise AnswerWrong(_METHOD, "$.result.addressQueue", "missing")
        _check_address(answer.address_queue, address)


def _check_state(state: StateQueue, output: QueueQuery | None, spent: QueueQuery | None) -> None:
    json_path = "$.result.stateQueue"
    _check_nodes(state.nodes, f"{json_path}.nodes")
    if output is not None:
        if state.output_queue is None:
            raise AnswerWrong(_METHOD, f"{json_path}.outputQueue", "missing")
        _check_output(state.output_queue, output, f"{json_path}.outputQueue")
    elif state.output_queue is not None and state.output_queue.leaf_indices:
        raise AnswerWrong(_METHOD, f"{json_path}.outputQueue", "not requested")
    if spent is not None:
        if state.input_queue is None:
            raise AnswerWrong(_METHOD, f"{json_path}.inputQueue", "missing")
        _check_input(state.input_queue, spent, f"{json_path}.inputQueue")
    elif state.input_queue is not None and state.input_queue.leaf_indices:
        raise AnswerWrong(_METHOD, f"{json_path}.inputQueue", "not requested")


def _check_output(queue: OutputQueue, query: QueueQuery, json_path: str) -> None:
    columns = {"accountHashes": queue.account_hashes, "leaves": queue.leaves}
    _check_columns(len(queue.leaf_indices), columns, json_path)
    _check_batches(len(queue.leaf_indices), query, json_path)
    if queue.leaf_indices:
        _check_consecutive(queue.leaf_indices, f"{json_path}.leafIndices")
        _check_start(queue.leaf_indices[0], query, f"{json_path}.leafIndices")
        for name, value in (("firstQueueIndex", queue.first_queue_index), ("nextIndex", queue.next_index)):
            if value != queue.leaf_indices[0]:
                reason = f"{value} where the first element has {queue.leaf_indices[0]}"
                raise AnswerWrong(_METHOD, f"{json_path}.{name}", reason)


def _check_input(queue: InputQueue, query: QueueQuery, json_path: str) -> None:
    columns = {
        "accountHashes": queue.account_hashes,
        "leaves": queue.leaves,
        "txHashes": queue.tx_hashes,
    }
    _check_columns(len(queue.leaf_indices), columns, json_path)
    _check_batches(len(queue.leaf_indices), query, json_path)
    if queue.leaf_indices:
        _check_start(queue.first_queue_index, query, f"{json_path}.firstQueueIndex")


def _check_address(queue: AddressQueue, query: QueueQuery) -> None:
    json_path = "$.result.addressQueue"
    columns = {
        "queueIndices": queue.queue_indices,
        "lowElementIndices": queue.low_element_indices,
        "lowElementValues": queue.low_element_values,
        "lowElementNextIndices": queue.low_element_next_indices,
        "lowElementNextValues": queue.low_element_next_values,
    }
    _check_columns(len(queue.addresses), columns, json_path)
    _check_nodes(queue.nodes, f"{json_path}.nodes")
    _check_limit(len(queue.addresses), query, json_path)
    if not queue.addresses:
        return
    _check_consecutive(queue.queue_indices, f"{json_path}.queueIndices")
    _check_start(queue.queue_indices[0], query, f"{json_path}.queueIndices")
    if query.start_index is None and queue.queue_indices[0] + 1 != queue.start_index:
        reason = f"{queue.start_index}, which is not one greater than the first queue index {queue.queue_indices[0]}"
        raise AnswerWrong(_METHOD, f"{json_path}.startIndex", reason)
    rows = zip(queue.low_element_values, queue.addresses, queue.low_element_next_values, strict=True)
    for number, (low, value, following) in enumerate(rows):
        if not low < value < following:
            reason = "the low element's range does not contain the address"
            raise AnswerWrong(_METHOD, f"{json_path}.lowElementValues[{number}]", reason)


def check_account_proofs(method: str, proofs: Sequence[AccountProof], hashes: Sequence[Hash32]) -> None:
    """Raise AnswerWrong unless the proofs are those of these leaves, of one root per tree."""
    _check_count(method, len(proofs), len(hashes))
    roots: dict[Hash32, tuple[Hash32, int]] = {}
    for number, (proof, query) in enumerate(zip(proofs, hashes, strict=True)):
        json_path = f"$.result.value[{number}]"
        if proof.hash != query:
            raise AnswerWrong(method, f"{json_path}.hash", f"{proof.hash} where {query} was requested")
        if len(proof.proof) != V1_HEIGHT:
            raise AnswerWrong(method, f"{json_path}.proof", f"{len(proof.proof)} hashes where {V1_HEIGHT} are expected")
        _check_root(method, roots, proof, json_path)


def check_address_proofs(
    method: str, proofs: Sequence[AddressProof], addresses: Sequence[tuple[Hash32, Hash32]]
) -> None:
    """Raise AnswerWrong unless the proofs are those of these addresses, of one root per tree.

    The range of each low element must contain its address.
    """
    _check_count(method, len(proofs), len(addresses))
    roots: dict[Hash32, tuple[Hash32, int]] = {}
    for number, (proof, (address, tree)) in enumerate(zip(proofs, addresses, strict=True)):
        json_path = f"$.result.value[{number}]"
        if proof.address != address:
            raise AnswerWrong(method, f"{json_path}.address", f"{proof.address} where {address} was requested")
        if proof.merkle_tree != tree:
            raise AnswerWrong(method, f"{json_path}.merkleTree", f"{proof.merkle_tree} where {tree} was requested")
        if not proof.lower_range_address < address < proof.higher_range_address:
            raise AnswerWrong(method, f"{json_path}.lowerRangeAddress", "the range does not contain the address")
        if len(proof.proof) not in _HEIGHTS:
            raise AnswerWrong(method, f"{json_path}.proof", f"{len(proof.proof)} hashes")
        _check_root(method, roots, proof, json_path)


def _check_root(
    method: str, roots: dict[Hash32, tuple[Hash32, int]], proof: AccountProof | AddressProof, json_path: str
) -> None:
    """Raise AnswerWrong for another root than an earlier proof's of its tree: each root costs a read of the chain."""
    root = proof.root, proof.root_seq
    if roots.setdefault(proof.merkle_tree, root) != root:
        raise AnswerWrong(method, f"{json_path}.root", "another root than an earlier proof of the same tree")


def check_compressed_accounts(
    method: str, items: Sequence[CompressedAccount | None], addresses: Sequence[Hash32]
) -> None:
    """Raise AnswerWrong unless the accounts are those at these addresses."""
    _check_count(method, len(items), len(addresses))
    for number, (item, address) in enumerate(zip(items, addresses, strict=True)):
        if item is not None and item.address != address:
            raise AnswerWrong(
                method, f"$.result.value.items[{number}].address", f"{item.address} where {address} was requested"
            )


def check_validity(method: str, validity: Validity, hashes: Sequence[Hash32]) -> None:
    """Raise AnswerWrong unless the proof is about these hashes and has the lengths of a proof."""
    _check_count(method, len(validity.accounts), len(hashes))
    for number, (account, wanted) in enumerate(zip(validity.accounts, hashes, strict=True)):
        if account.hash != wanted:
            raise AnswerWrong(
                method, f"$.result.value.accounts[{number}].hash", f"{account.hash} where {wanted} was requested"
            )
    proof, path = validity.compressed_proof, "$.result.value.compressedProof"
    if proof is None:
        if not all(account.root_index.prove_by_index for account in validity.accounts):
            raise AnswerWrong(method, path, "none, though an account is not in a queue")
    elif (len(proof.a), len(proof.b), len(proof.c)) != (32, 64, 32):
        raise AnswerWrong(method, path, "not 32, 64 and 32 bytes")


def _check_count(method: str, given: int, query: int) -> None:
    if given != query:
        raise AnswerWrong(method, "$.result.value", f"{given} items where {query} were requested")


def _check_columns(length: int, columns: Mapping[str, tuple[object, ...]], json_path: str) -> None:
    for name, column in columns.items():
        if len(column) != length:
            raise AnswerWrong(_METHOD, f"{json_path}.{name}", f"{len(column)} items for {length} elements")


def _check_batches(length: int, query: QueueQuery, json_path: str) -> None:
    if length % query.zkp_batch_size:
        raise AnswerWrong(_METHOD, json_path, f"{length} elements are not whole batches of {query.zkp_batch_size}")
    _check_limit(length, query, json_path)


def _check_limit(length: int, query: QueueQuery, json_path: str) -> None:
    if length > query.limit:
        raise AnswerWrong(_METHOD, json_path, f"{length} elements where at most {query.limit} were requested")


def _check_start(first: int, query: QueueQuery, json_path: str) -> None:
    if query.start_index is not None and first != query.start_index:
        raise AnswerWrong(_METHOD, json_path, f"begins at {first} where {query.start_index} was requested")


def _check_consecutive(indices: Sequence[int], json_path: str) -> None:
    for number, index in enumerate(indices):
        if index != indices[0] + number:
            raise AnswerWrong(_METHOD, f"{json_path}[{number}]", f"{index} does not follow {indices[0] + number - 1}")


def _check_nodes(nodes: Sequence[Node], json_path: str) -> None:
    seen: dict[int, Hash32] = {}
    for number, node in enumerate(nodes):
        if node.index >> LEVEL_BITS > _HEIGHTS[-1]:
            raise AnswerWrong(_METHOD, f"{json_path}[{number}].index", f"level {node.index >> LEVEL_BITS}")
        if seen.setdefault(node.index, node.hash) != node.hash:
            raise AnswerWrong(_METHOD, f"{json_path}[{number}].hash", "another hash than before for the same node")
