"""Hashes and request builders against golden values and requests that the reference accepted."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learning import learn, learn_element

from shared.requests.circuit_id import CircuitKind
from shared.requests.proof_wire import (
    BatchAddressAppendRequest,
    BatchAppendRequest,
    BatchUpdateRequest,
    CombinedRequest,
    Envelope,
    InclusionRequest,
    InputCompressedAccount,
    NewAddress,
    NonInclusionRequest,
    ProofRequest,
    decode_request,
    encode_request,
    split_body,
)
from shared.requests.witness_inputs import (
    Membership,
    SpentAccount,
    append_input_hash,
    batch_address_append_request,
    batch_append_request,
    batch_update_request,
    chain,
    chain2,
    combined_request,
    inclusion_request,
    membership,
    non_inclusion_request,
    nullifier,
    public_inputs,
    tx_hash,
    update_input_hash,
)
from shared.trees.field import ZERO
from shared.trees.indexed_merkle_tree import Absence, Element, IndexedMerkleTree, ValuePresent
from shared.trees.merkle_tree import MerkleTree, TreeFull, root_of
from shared.trees.poseidon import hash2, hash3

VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "circuits"


def load(name: str) -> Any:
    return json.loads((VECTORS / name).read_text())


def element(text: str | int) -> bytes:
    return (text if isinstance(text, int) else int(text, 16)).to_bytes(32, "big")


def elements(texts: list[str | int] | tuple[str, ...]) -> list[bytes]:
    return [element(text) for text in texts]


def golden_requests(stem: str = "request*") -> list[dict[str, Any]]:
    return [entry for path in sorted(VECTORS.glob(f"{stem}.json")) for entry in json.loads(path.read_text())]


def read(entry: dict[str, Any]) -> ProofRequest:
    return decode_request(
        split_body(json.dumps(entry["request"]).encode()), CircuitKind(entry["request"]["circuitType"])
    )


def version_of(entry: dict[str, Any]) -> int:
    return 2 if "publicInputHash" in entry["request"] else 1


def membership_of(account: InputCompressedAccount) -> Membership:
    path = tuple(elements(account.path_elements))
    return Membership(element(account.root), account.path_index, element(account.leaf), path)


def absence_of(address: NewAddress, version: int) -> Absence:
    low = Element(
        address.path_index,
        element(address.leaf_lower_range_value),
        address.next_index,
        element(address.leaf_higher_range_value),
    )
    return Absence(version, element(address.root), element(address.value), low, tuple(elements(address.path_elements)))


@pytest.mark.parametrize("entry", load("hash_chains.json")["hash_chain"])
def test_chain__golden_inputs__equals_the_reference(entry: dict[str, Any]) -> None:
    assert chain(elements(entry["inputs"])) == element(entry["output"])


@pytest.mark.parametrize("entry", load("hash_chains.json")["two_inputs_hash_chain"])
def test_chain2__golden_inputs__equals_the_reference(entry: dict[str, Any]) -> None:
    assert chain2(elements(entry["first"]), elements(entry["second"])) == element(entry["output"])


@pytest.mark.parametrize("entry", load("hash_chains.json")["tx_hash"])
def test_tx_hash__golden_inputs__equals_the_reference(entry: dict[str, Any]) -> None:
    assert tx_hash(elements(entry["inputs"]), elements(entry["outputs"]), entry["slot"]) == element(entry["output"])


@pytest.mark.parametrize("entry", load("hash_chains.json")["nullifier"])
def test_nullifier__golden_inputs__equals_the_reference(entry: dict[str, Any]) -> None:
    golden = nullifier(element(entry["accountHash"]), entry["leafIndex"], element(entry["txHash"]))
    assert golden == element(entry["output"])


def test_chains__without_elements_or_of_unequal_length__are_zero_or_refused() -> None:
    assert chain([]) == ZERO
    with pytest.raises(ValueError, match="at least one"):
        chain2([], [])
    with pytest.raises(ValueError, match="shorter"):
        chain2([ZERO, ZERO], [ZERO])


def test_input_hashes__of_small_numbers__follow_their_definitions() -> None:
    one, two, three, four = (element(value) for value in (1, 2, 3, 4))
    assert append_input_hash(one, two, three, 4) == hash2(hash2(hash2(one, two), three), four)
    assert update_input_hash(one, two, three) == hash2(hash2(one, two), three)
    assert chain2([one, two], [three, four]) == hash3(hash2(one, three), two, four)


@pytest.mark.parametrize("entry", golden_requests(), ids=lambda entry: entry["name"])
def test_public_inputs__golden_requests__equal_the_reference(entry: dict[str, Any]) -> None:
    assert public_inputs(read(entry)) == elements(entry["publicInputs"])


@pytest.mark.parametrize("entry", golden_requests("requests_*"), ids=lambda entry: entry["name"])
def test_merkle_request__from_the_proofs_of_a_golden_one__equals_it(entry: dict[str, Any]) -> None:
    golden = read(entry)
    version = version_of(entry)
    assert not isinstance(golden, BatchAppendRequest | BatchUpdateRequest | BatchAddressAppendRequest)
    members, absences = [], []
    if not isinstance(golden, NonInclusionRequest):
        members = [membership_of(account) for account in golden.input_compressed_accounts]
    if not isinstance(golden, InclusionRequest):
        absences = [absence_of(address, version) for address in golden.new_addresses]
    for member in members:
        assert root_of(member.leaf, member.index, member.path) == member.root
    for absence in absences:
        assert root_of(absence.low.leaf(version), absence.low.index, absence.path) == absence.root
    if isinstance(golden, InclusionRequest):
        assert inclusion_request(members, version) == golden
    elif isinstance(golden, NonInclusionRequest):
        assert non_inclusion_request(absences) == golden
    else:
        assert combined_request(members, absences) == golden


def test_state_batches__of_the_golden_story__equal_the_golden_requests() -> None:
    """Append, then nullify accounts of which half are not appended yet, then append those."""
    (first, second), (update,) = (golden_requests(f"request_batch_{kind}_32_10") for kind in ("append", "update"))
    tree = MerkleTree(32)
    for entry in (first, update, second):
        golden = read(entry)
        if isinstance(golden, BatchAppendRequest):
            built: ProofRequest = batch_append_request(tree, elements(golden.leaves))
        else:
            assert isinstance(golden, BatchUpdateRequest)
            columns = zip(elements(golden.leaves), golden.path_indices, elements(golden.tx_hashes), strict=True)
            built = batch_update_request(tree, [SpentAccount(*column) for column in columns])
        assert built == golden


def test_state_batch__built_from_the_root_and_old_proofs__equals_the_golden_request() -> None:
    """What a client has that does not hold the tree: the root, and leaves with their paths against it."""
    (first, second), (update,) = (golden_requests(f"request_batch_{kind}_32_10") for kind in ("append", "update"))
    whole = MerkleTree(32)
    before, nullified, golden = read(first), read(update), read(second)
    assert isinstance(before, BatchAppendRequest)
    assert isinstance(nullified, BatchUpdateRequest)
    assert isinstance(golden, BatchAppendRequest)
    batch_append_request(whole, elements(before.leaves))
    part = MerkleTree.from_root(32, whole.next_index, whole.root)
    for index in {*nullified.path_indices, *range(10, 20)}:
        learn(part, index, whole.leaf(index), whole.proof(index))
    columns = zip(elements(nullified.leaves), nullified.path_indices, elements(nullified.tx_hashes), strict=True)
    assert batch_update_request(part, [SpentAccount(*column) for column in columns]) == nullified
    assert batch_append_request(part, elements(golden.leaves)) == golden


def test_address_batches__of_the_golden_story__equal_the_golden_requests() -> None:
    tree = IndexedMerkleTree(2)
    for entry in golden_requests("request_batch_address_append_40_10"):
        golden = read(entry)
        assert isinstance(golden, BatchAddressAppendRequest)
        assert batch_address_append_request(tree, elements(golden.new_element_values)) == golden


def test_address_batch__built_from_frontier_and_old_proofs__equals_the_golden_request() -> None:
    """What a client has that does not hold the whole tree: the frontier, and low elements against the old root."""
    first, second = (read(entry) for entry in golden_requests("request_batch_address_append_40_10"))
    assert isinstance(first, BatchAddressAppendRequest)
    assert isinstance(second, BatchAddressAppendRequest)
    whole = IndexedMerkleTree(2)
    batch_address_append_request(whole, elements(first.new_element_values))
    part = IndexedMerkleTree.from_frontier(2, 40, whole.next_index, whole.frontier())
    for value in elements(second.new_element_values):
        absence = whole.absence(value)
        learn_element(part, absence.low, absence.path)
    assert batch_address_append_request(part, elements(second.new_element_values)) == second


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), height=st.integers(3, 6), count=st.integers(1, 4))
def test_requests__from_any_tree__satisfy_what_their_circuits_demand(seed: int, height: int, count: int) -> None:
    numbers = random.Random(seed)
    tree = MerkleTree(height)
    leaves = [numbers.randbytes(31).rjust(32, b"\0") for _ in range(4)]
    tree.append(leaves)
    spent = [SpentAccount(leaves[index % 3], index % 3, element(seed + index)) for index in range(count)]
    stage = tree.stage()
    root = tree.root
    update = batch_update_request(tree, spent)
    assert element(update.old_root) == root
    for account, old, path in zip(spent, update.old_leaves, update.new_merkle_proofs, strict=True):
        assert root_of(element(old), account.leaf_index, elements(path)) == root
        root = root_of(account.nullifier, account.leaf_index, elements(path))
    assert element(update.new_root) == root == tree.root
    assert public_inputs(update) == [element(update.public_input_hash)]
    tree.roll_back(stage)
    assert element(update.old_root) == tree.root

    address_tree = IndexedMerkleTree(numbers.choice([1, 2]), height)
    address_tree.insert_many([element(1000)])
    absences = [address_tree.absence(element(numbers.randrange(1, 1000))) for _ in range(count)]
    members = [membership(tree, numbers.randrange(2**height)) for _ in range(count)]
    for request in (
        inclusion_request(members, address_tree.version),
        non_inclusion_request(absences),
        combined_request(members, absences),
    ):
        said = request.public_input_hash
        computed = public_inputs(request)
        assert (said is None) == (address_tree.version == 1)
        assert computed == [element(said)] if said else len(computed) == sum(2 * n for n in sizes(request))
        assert decode_request(split_body(encode_request(request)), CircuitKind(request.circuit_type)) == request


def sizes(request: InclusionRequest | NonInclusionRequest | CombinedRequest) -> list[int]:
    return [len(value) for value in msgspec.structs.astuple(request) if isinstance(value, tuple)]


def test_requests__as_envelopes__are_of_the_circuit_they_were_built_for() -> None:
    tree = MerkleTree(26)
    tree.append([element(1)])
    members = [membership(tree, 0)]
    for version in (1, 2):
        absences = [IndexedMerkleTree(version).absence(element(5))]
        assert Envelope.read(encode_request(inclusion_request(members, version))).version == version
        assert Envelope.read(encode_request(non_inclusion_request(absences))).version == version
        assert Envelope.read(encode_request(combined_request(members, absences))).version == version


def test_batches__that_cannot_be__change_nothing() -> None:
    tree = MerkleTree(2)
    addresses = IndexedMerkleTree(2, 3)
    roots = tree.root, addresses.root
    for attempt in (
        lambda: batch_append_request(tree, []),
        lambda: batch_update_request(tree, []),
        lambda: batch_address_append_request(addresses, []),
        lambda: batch_address_append_request(IndexedMerkleTree(1), [element(5)]),
        lambda: batch_append_request(tree, [element(1), b"short"]),
        lambda: batch_append_request(tree, [element(1)] * 5),
        lambda: batch_update_request(tree, [SpentAccount(element(1), 0, b"\xff" * 32)]),
        lambda: batch_update_request(tree, [SpentAccount(element(1), 2**32, element(1))]),
        lambda: batch_address_append_request(addresses, [element(5), element(5)]),
    ):
        with pytest.raises((ValueError, TreeFull, ValuePresent)):
            attempt()
    with pytest.raises(IndexError):
        batch_update_request(tree, [SpentAccount(element(1), 4, element(1))])
    assert (tree.root, addresses.root) == roots
    assert tree.next_index == 0


def test_merkle_requests__of_trees_of_several_kinds__are_refused() -> None:
    members = [membership(MerkleTree(height), 0) for height in (26, 32)]
    with pytest.raises(ValueError, match="one height"):
        inclusion_request(members, 1)
    with pytest.raises(ValueError, match="one version"):
        non_inclusion_request([IndexedMerkleTree(version, 26).absence(element(5)) for version in (1, 2)])
    with pytest.raises(ValueError, match="32 bits"):
        inclusion_request([membership(MerkleTree(40), 2**32)], 1)
    with pytest.raises(ValueError, match="one height"):
        inclusion_request([], 1)
