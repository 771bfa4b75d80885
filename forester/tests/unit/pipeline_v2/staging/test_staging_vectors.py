"""Staging against recorded answers of an indexer, recorded batch events and golden circuit requests."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from base58_hashes import parse_hash
from shared_vectors import shared_vectors

from forester.indexer.types import (
    AddressQueue,
    Hash32,
    InputQueue,
    Node,
    OutputQueue,
    QueueElements,
    QueueQuery,
    StateQueue,
    decode_base58,
)
from forester.indexer.validation import check_queue_elements
from forester.pipeline_v2.staging.staged_batches import StagedBatch, Staging, stage_addresses, stage_state
from forester.pipeline_v2.staging.tree_head import TreeHead
from shared.requests.witness_inputs import SpentAccount, chain
from shared.trees.field import ZERO, format_number, parse_scalar
from shared.trees.indexed_merkle_tree import IndexedMerkleTree
from shared.trees.merkle_tree import MerkleTree
from shared.trees.poseidon import hash2


def load(name: str) -> Any:
    return shared_vectors(f"indexer/{name}")


def answer(recorded: dict[str, Any]) -> QueueElements:
    body = json.dumps(recorded["response"]["result"]).encode()
    return msgspec.json.decode(body, type=QueueElements, dec_hook=decode_base58)


def element(text: str) -> Hash32:
    return Hash32(parse_scalar(text)[0])


def staged_batches(staging: Staging | None) -> list[StagedBatch]:
    assert staging is not None
    return [batch for _ in range(staging.waiting) if (batch := staging.next()) is not None]


def chains_of(values: Sequence[bytes]) -> tuple[bytes, ...]:
    return tuple(chain(values[place : place + 10]) for place in range(0, len(values) // 10 * 10, 10))


def nullifiers_of(queue: InputQueue) -> list[bytes]:
    columns = (queue.account_hashes, queue.leaf_indices, queue.tx_hashes)
    return [SpentAccount(*row).nullifier for row in zip(*columns, strict=True)]


def head_of(queue: StateQueue | AddressQueue, next_index: int, height: int, nullified: int = 0) -> TreeHead:
    """Return the tree of an answer, whose account has all batches of the answer."""
    appends: Sequence[bytes] = ()
    if isinstance(queue, AddressQueue):
        inputs: Sequence[bytes] = queue.addresses
    else:
        inputs = nullifiers_of(queue.input_queue) if queue.input_queue is not None else ()
        appends = queue.output_queue.account_hashes if queue.output_queue is not None else ()
    return TreeHead(
        root=queue.initial_root,
        sequence=queue.root_seq,
        next_index=next_index,
        nullifier_next_index=nullified,
        height=height,
        zkp_batch_size=10,
        input_chains=chains_of(inputs),
        append_chains=chains_of(appends),
    )


def require_expected(batch: StagedBatch, expected: dict[str, Any]) -> None:
    request: Any = batch.request
    assert batch.kind == {"append": "append", "update": "update"}.get(expected["kind"], "address-append")
    assert format_number(batch.old_root) == request.old_root == expected["oldRoot"]
    assert format_number(batch.new_root) == request.new_root == expected["newRoot"]
    assert request.public_input_hash == expected["publicInputHash"]
    assert batch.sequence + 1 == expected["rootSeqAfter"]
    contents = getattr(request, "leaves_hashchain_hash", None) or request.hashchain_hash
    assert contents == expected["leavesHashChain"]
    if "startIndex" in expected:
        assert request.start_index == batch.start_index == expected["startIndex"]
    for name, member in (("oldLeaves", "old_leaves"), ("pathIndices", "path_indices")):
        if name in expected:
            assert list(getattr(request, member)) == expected[name]


def test_stage__recorded_state_queue__gives_the_recorded_batches() -> None:
    recorded = load("queue_state")
    queue = answer(recorded).state_queue
    assert queue is not None
    batches = staged_batches(stage_state(queue, head_of(queue, 20, 32), 4))
    assert len(batches) == 2
    for batch, expected in zip(batches, recorded["expectAppendFirst"], strict=True):
        require_expected(batch, expected)
    alone = msgspec.structs.replace(queue, output_queue=None)
    (nullify,) = staged_batches(stage_state(alone, head_of(queue, 20, 32), 4))
    require_expected(nullify, recorded["expectRecordedOrder"][0])
    assert nullify.new_root == parse_hash(recorded["expectRecordedRoots"][0])
    assert batches[-1].new_root == parse_hash(recorded["expectRecordedRoots"][1]), "both orders lead to one root"


@pytest.mark.parametrize(
    "value", [None, [], ["11111111111111111111111111111111"], "no list"], ids=["absent", "empty", "wrong", "malformed"]
)
@pytest.mark.parametrize("name", ["leavesHashChains", "nullifiers"])
def test_stage__chains_or_nullifiers_of_the_indexer_are_wrong__gives_the_recorded_batches(
    name: str, value: object
) -> None:
    recorded = load("queue_state")
    for part in ("inputQueue", "outputQueue"):
        members = recorded["response"]["result"]["stateQueue"][part]
        if value is None:
            members.pop(name, None)
        else:
            members[name] = value
    answered = answer(recorded)
    query = QueueQuery(20, 10)
    check_queue_elements(answered, query, query, None)
    queue = answered.state_queue
    assert queue is not None
    batches = staged_batches(stage_state(queue, head_of(queue, 20, 32), 4))
    for batch, expected in zip(batches, recorded["expectAppendFirst"], strict=True):
        require_expected(batch, expected)


def test_stage__append_over_nullified_leaves__keeps_the_nullifiers() -> None:
    recorded = load("queue_state_spent_first")
    queue = answer(recorded).state_queue
    assert queue is not None
    (batch,) = staged_batches(stage_state(queue, head_of(queue, 10, 32), 4))
    require_expected(batch, recorded["expect"])
    assert batch.new_root == parse_hash(recorded["expectRecordedRoot"])


def test_stage__recorded_address_queue__gives_the_recorded_batches() -> None:
    recorded = load("queue_address")
    queue = answer(recorded).address_queue
    assert queue is not None
    batches = staged_batches(stage_addresses(queue, head_of(queue, 11, 40), 4))
    assert len(batches) == 2
    for batch, expected in zip(batches, recorded["expect"], strict=True):
        require_expected(batch, expected)
        assert batch.new_root == parse_hash(expected["recordedRoot"])


def test_stage__recorded_empty_address_queue__gives_nothing() -> None:
    queue = answer(load("queue_address_empty")).address_queue
    assert queue is not None
    assert stage_addresses(queue, head_of(queue, 1, 40), 4) is None


@dataclass
class ReplayedTree:
    """An indexer of one state tree: takes recorded transactions, answers with its queues."""

    tree: MerkleTree = field(default_factory=lambda: MerkleTree(32))
    sequence: int = 0
    outputs: dict[int, bytes] = field(default_factory=dict)
    inputs: dict[int, SpentAccount] = field(default_factory=dict)
    nullified: int = 0

    def queue(self, appends: int, nullifies: int) -> StateQueue:
        places = range(self.tree.next_index, self.tree.next_index + appends)
        queued = range(self.nullified, self.nullified + nullifies)
        spent = [self.inputs[place] for place in queued]
        listed = [*places, *(account.leaf_index for account in spent)]
        nodes = {
            (level << 56) + ((index >> level) ^ 1): self.tree.proof(index)[level]
            for index in listed
            for level in range(32)
        }
        return StateQueue(
            nodes=tuple(Node(index=index, hash=Hash32(node)) for index, node in sorted(nodes.items())),
            initial_root=Hash32(self.tree.root),
            root_seq=self.sequence,
            output_queue=OutputQueue(
                leaf_indices=tuple(places),
                account_hashes=tuple(Hash32(self.outputs[place]) for place in places),
                leaves=tuple(Hash32(self.tree.leaf(place)) for place in places),
                first_queue_index=places.start,
                next_index=places.start,
            ),
            input_queue=InputQueue(
                leaf_indices=tuple(account.leaf_index for account in spent),
                account_hashes=tuple(Hash32(account.account) for account in spent),
                leaves=tuple(Hash32(self.tree.leaf(account.leaf_index)) for account in spent),
                tx_hashes=tuple(Hash32(account.tx_hash) for account in spent),
                first_queue_index=self.nullified,
            ),
        )

    def stage(self, appends: int, nullifies: int) -> Staging | None:
        queue = self.queue(appends, nullifies)
        return stage_state(queue, head_of(queue, self.tree.next_index, 32, self.nullified), 1)

    def apply(self, kind: str) -> None:
        self.sequence += 1
        if kind == "append":
            first = self.tree.next_index
            self.tree.append([self.outputs[place] for place in range(first, first + 10)])
            return
        for place in range(self.nullified, self.nullified + 10):
            self.tree.set_many({self.inputs[place].leaf_index: self.inputs[place].nullifier})
        self.nullified += 10


@pytest.mark.parametrize("name", ["replay_state_append_then_nullify", "replay_state_nullify_before_append"])
def test_stage__replayed_state_tree__reaches_every_recorded_root(name: str) -> None:
    replayed, batches = ReplayedTree(), 0
    for kind, _, *columns in load(name)["ops"]:
        if kind == "output":
            replayed.outputs[columns[0]] = parse_hash(columns[1])
        elif kind == "input":
            place, leaf_index, account, tx_hash, nullifier = columns
            replayed.inputs[place] = SpentAccount(parse_hash(account), leaf_index, parse_hash(tx_hash))
            assert replayed.inputs[place].nullifier == parse_hash(nullifier)
        else:
            counts = (10, 0) if kind == "append" else (0, 10)
            (batch,) = staged_batches(replayed.stage(*counts))
            assert batch.new_root == parse_hash(columns[0]["newRoot"])
            assert batch.sequence + 1 == columns[0]["sequenceNumber"]
            assert batch.start_index == columns[0]["oldNextIndex"]
            replayed.apply(kind)
            batches += 1
    assert batches >= 4


def address_queue(
    whole: IndexedMerkleTree, values: Sequence[bytes], sequence: int, first: int | None = None
) -> AddressQueue:
    """Return the answer of an indexer whose tree is ``whole``."""
    lows = [whole.low_element(value) for value in values]
    nodes = {
        (level << 56) + ((low.index >> level) ^ 1): whole.proof(low.index)[level]
        for low in lows
        for level in range(whole.height)
    }
    start = whole.next_index if first is None else first
    return AddressQueue(
        addresses=tuple(map(Hash32, values)),
        queue_indices=tuple(range(start - 1, start - 1 + len(values))),
        nodes=tuple(Node(index=index, hash=Hash32(node)) for index, node in sorted(nodes.items())),
        low_element_indices=tuple(low.index for low in lows),
        low_element_values=tuple(Hash32(low.value) for low in lows),
        low_element_next_indices=tuple(low.next_index for low in lows),
        low_element_next_values=tuple(Hash32(low.next_value) for low in lows),
        initial_root=Hash32(whole.root),
        start_index=start,
        subtrees=tuple(map(Hash32, whole.frontier())),
        root_seq=sequence,
    )


def test_stage__replayed_address_tree__reaches_every_recorded_root() -> None:
    ops = load("replay_address")["ops"]
    values = [parse_hash(columns[1]) for kind, _, *columns in ops if kind == "address"]
    events = [columns[0] for kind, _, *columns in ops if kind == "address-append"]
    whole = IndexedMerkleTree(2)
    queue = address_queue(whole, values, 0)
    batches = staged_batches(stage_addresses(queue, head_of(queue, 1, 40), 3))
    assert [batch.new_root for batch in batches] == [parse_hash(event["newRoot"]) for event in events]
    assert [batch.start_index for batch in batches] == [event["oldNextIndex"] for event in events]


def snapshot_nodes(writes: Sequence[tuple[int, str, Sequence[str]]]) -> tuple[Node, ...]:
    """Return the nodes before the first of some writes, from their paths at the moment of each write."""
    written: dict[tuple[int, int], bytes] = {}
    nodes: dict[int, Node] = {}
    for index, leaf, path in writes:
        node, place = element(leaf), index
        for level, sibling in enumerate(path):
            written[level, place] = node
            if (level, place ^ 1) not in written:
                number = (level << 56) + (place ^ 1)
                nodes.setdefault(number, Node(index=number, hash=element(sibling)))
            other = element(sibling)
            node = Hash32(hash2(other, node) if place & 1 else hash2(node, other))
            place >>= 1
    return tuple(nodes.values())


def golden(name: str) -> list[Any]:
    cases: list[Any] = shared_vectors(f"circuits/{name}")
    return cases


def require_golden(batch: StagedBatch, request: dict[str, Any]) -> None:
    made = json.loads(msgspec.json.encode(batch.request))
    expected = {name: value for name, value in request.items() if name != "stateTreeHeight"}
    assert {name: made[name] for name in expected} == expected
    assert set(made) == set(expected)


@pytest.mark.parametrize("case", golden("request_batch_append_32_10"), ids=lambda case: str(case["name"]))
def test_stage__queue_of_a_golden_append__gives_its_request(case: dict[str, Any]) -> None:
    request = case["request"]
    start, count = request["startIndex"], request["batchSize"]
    kept = [
        new if element(old) == ZERO else old for old, new in zip(request["oldLeaves"], request["leaves"], strict=True)
    ]
    queue = StateQueue(
        nodes=snapshot_nodes(list(zip(range(start, start + count), kept, request["merkleProofs"], strict=True))),
        initial_root=element(request["oldRoot"]),
        root_seq=7,
        output_queue=OutputQueue(
            leaf_indices=tuple(range(start, start + count)),
            account_hashes=tuple(map(element, request["leaves"])),
            leaves=tuple(map(element, request["oldLeaves"])),
            first_queue_index=start,
            next_index=start,
        ),
    )
    (batch,) = staged_batches(stage_state(queue, head_of(queue, start, 32), 1))
    require_golden(batch, request)


@pytest.mark.parametrize("case", golden("request_batch_update_32_10"), ids=lambda case: str(case["name"]))
def test_stage__queue_of_a_golden_update__gives_its_request(case: dict[str, Any]) -> None:
    request = case["request"]
    accounts, indices, tx_hashes = request["leaves"], request["pathIndices"], request["txHashes"]
    spent = [SpentAccount(element(a), i, element(t)) for a, i, t in zip(accounts, indices, tx_hashes, strict=True)]
    nullifiers = [Hash32(account.nullifier) for account in spent]
    written = [format_number(nullifier) for nullifier in nullifiers]
    assert chain(nullifiers) == element(request["leavesHashchainHash"])
    queue = StateQueue(
        nodes=snapshot_nodes(list(zip(indices, written, request["newMerkleProofs"], strict=True))),
        initial_root=element(request["oldRoot"]),
        root_seq=7,
        input_queue=InputQueue(
            leaf_indices=tuple(indices),
            account_hashes=tuple(map(element, accounts)),
            leaves=tuple(map(element, request["oldLeaves"])),
            tx_hashes=tuple(map(element, tx_hashes)),
            first_queue_index=0,
        ),
    )
    (batch,) = staged_batches(stage_state(queue, head_of(queue, 1000, 32), 1))
    require_golden(batch, request)


def tree_before(request: dict[str, Any]) -> IndexedMerkleTree:
    """Return the address tree of a golden request before it: the initial one, or that after the request before."""
    whole = IndexedMerkleTree(2)
    for case in golden("request_batch_address_append_40_10"):
        if whole.next_index == request["startIndex"]:
            break
        whole.insert_many([element(value) for value in case["request"]["newElementValues"]])
    assert whole.root == element(request["oldRoot"])
    return whole


@pytest.mark.parametrize("case", golden("request_batch_address_append_40_10"), ids=lambda case: str(case["name"]))
def test_stage__queue_of_a_golden_insertion__gives_its_request(case: dict[str, Any]) -> None:
    request = case["request"]
    values = [element(value) for value in request["newElementValues"]]
    queue = address_queue(tree_before(request), values, 7)
    (batch,) = staged_batches(stage_addresses(queue, head_of(queue, request["startIndex"], 40), 1))
    require_golden(batch, request)
