"""The recorded V1 work: a nullifier and an address leave their queues for their trees."""

from __future__ import annotations

import hashlib

import forester_instructions
import pytest
from chains import AUTHORITY, FORESTER, Inserter, funded, registered_inserter, replay, send, simulated_artefacts
from forestry import INSERT_INTO_QUEUES
from recorded import recorded
from solders.compute_budget import set_compute_unit_limit
from solders.pubkey import Pubkey
from v1_work import LAST_CHANGE, content, number_at, root_v1, waiting

from localnet.chain import addresses
from localnet.chain.network import Network
from localnet.programs import registry
from shared.trees.indexed_merkle_tree import IndexedMerkleTree
from shared.trees.merkle_tree import MerkleTree

LEAF_INDEX = 1
EPOCH, ACTIVE_SLOT, LIGHT_SLOT = 0, 100, 10


def current_root(network: Network, tree: Pubkey) -> str:
    return root_v1(network, tree).hex()


@pytest.fixture
def network() -> Network:
    """A network whose forester is that of the recordings, active in epoch 0 together with the one of the fixtures."""
    network = funded(simulated_artefacts(), check_blockhash=False, first_slot=50)
    me = FORESTER.pubkey()
    admitted = registry.register_forester(AUTHORITY.pubkey(), AUTHORITY.pubkey(), me)
    assert send(network, [admitted], AUTHORITY).err is None
    assert send(network, [forester_instructions.register_forester_epoch(me, me, EPOCH)], FORESTER).err is None
    network.warp(ACTIVE_SLOT)
    assert send(network, [forester_instructions.finalize_registration(me, me, EPOCH)], FORESTER).err is None
    return network


def wait_for_turn(network: Network, queue: Pubkey) -> None:
    """Warp to the next light slot in which the second of two foresters may work on a queue."""
    turns = (light_slot for light_slot in range(1, 20) if share(queue, light_slot) % 2 == 1)
    network.warp(ACTIVE_SLOT + LIGHT_SLOT * next(turns))


def share(queue: Pubkey, light_slot: int) -> int:
    text = bytes(queue) + EPOCH.to_bytes(8, "big") + light_slot.to_bytes(8, "big")
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big")


def insert(inserter: Inserter, head: list[int], vectors: list[bytes], accounts: list[Pubkey]) -> None:
    """Call insert_into_queues; ``vectors`` are leaves, nullifiers and addresses, each with its count."""
    body = bytes([1, 255, *head]) + bytes(32) + b"".join(vectors) + bytes(8)
    done = inserter.insert(INSERT_INTO_QUEUES + registry.u32(len(body)) + body, accounts)
    assert done.err is None, done.logs


def queue_nullifier(network: Network, leaves: list[bytes]) -> None:
    inserter = registered_inserter(network)
    rows = b"".join(b"\x00" + leaf for leaf in leaves)
    insert(inserter, [0, 1, 0, 0], [bytes([len(leaves)]) + rows, b"\x00", b"\x00"], [addresses.STATE_TREE_V1])
    nullifier = leaves[LEAF_INDEX] + registry.u32(LEAF_INDEX) + bytes([0, 1, 0])
    accounts = [addresses.NULLIFIER_QUEUE_V1, addresses.STATE_TREE_V1]
    insert(inserter, [1, 0, 0, 0], [b"\x00", b"\x01" + nullifier, b"\x00"], accounts)


def test_nullify__recorded_transaction__clears_the_leaf(network: Network) -> None:
    facts = recorded("v1_txs")["nullify"]
    queue_nullifier(network, [bytes.fromhex(leaf) for leaf in facts["leaves"]])
    assert current_root(network, addresses.STATE_TREE_V1) == facts["old_root"]
    wait_for_turn(network, addresses.NULLIFIER_QUEUE_V1)
    done = replay(network, facts)
    assert current_root(network, addresses.STATE_TREE_V1) == facts["new_root"]
    assert done.compute_units == facts["compute_units"]
    [event] = [call.data.hex() for group in done.inner_instructions for call in group if call.program == addresses.NOOP]
    assert event == facts["event"]


def test_nullify__built_here__equals_the_recorded_one_and_works_once(network: Network) -> None:
    facts = recorded("v1_txs")["nullify"]
    leaves = [bytes.fromhex(leaf) for leaf in facts["leaves"]]
    queue_nullifier(network, leaves)
    tree = MerkleTree(26)
    tree.append(leaves)
    instruction = forester_instructions.nullify(
        FORESTER.pubkey(),
        addresses.forester_epoch(FORESTER.pubkey(), EPOCH),
        addresses.STATE_TREE_V1,
        addresses.NULLIFIER_QUEUE_V1,
        changelog_index=facts["changelog_index"],
        queue_index=facts["queue_index"],
        leaf_index=facts["leaf_index"],
        siblings=tree.proof(facts["leaf_index"]),
    )
    assert bytes(instruction.data).hex() == facts["instruction"]["data"]
    wait_for_turn(network, addresses.NULLIFIER_QUEUE_V1)
    assert send(network, [set_compute_unit_limit(400_000), instruction], FORESTER).err is None
    network.advance()
    done = send(network, [set_compute_unit_limit(400_000), instruction], FORESTER)
    assert done.err == {"InstructionError": [1, {"Custom": 6015}]}


def test_nullify__proof_of_another_leaf__is_refused(network: Network) -> None:
    facts = recorded("v1_txs")["nullify"]
    leaves = [bytes.fromhex(leaf) for leaf in facts["leaves"]]
    queue_nullifier(network, leaves)
    tree = MerkleTree(26)
    tree.append([*reversed(leaves), *leaves])
    places = {"changelog_index": facts["changelog_index"], "queue_index": facts["queue_index"]}
    instruction = forester_instructions.nullify(
        FORESTER.pubkey(),
        addresses.forester_epoch(FORESTER.pubkey(), EPOCH),
        addresses.STATE_TREE_V1,
        addresses.NULLIFIER_QUEUE_V1,
        leaf_index=facts["leaf_index"],
        siblings=tree.proof(facts["leaf_index"]),
        **places,
    )
    wait_for_turn(network, addresses.NULLIFIER_QUEUE_V1)
    done = send(network, [set_compute_unit_limit(400_000), instruction], FORESTER)
    assert done.err == {"InstructionError": [1, {"Custom": 10010}]}
    assert current_root(network, addresses.STATE_TREE_V1) == facts["old_root"]


def queue_two(network: Network) -> tuple[MerkleTree, list[bytes]]:
    """Queue two leaves to be cleared; return a copy of the tree, and the leaves."""
    leaves = [bytes.fromhex(leaf) for leaf in recorded("v1_txs")["nullify"]["leaves"]]
    queue_nullifier(network, leaves)
    inserter = registered_inserter(network)
    nullifier = leaves[0] + registry.u32(0) + bytes([0, 1, 0])
    accounts = [addresses.NULLIFIER_QUEUE_V1, addresses.STATE_TREE_V1]
    insert(inserter, [1, 0, 0, 0], [b"\x00", b"\x01" + nullifier, b"\x00"], accounts)
    tree = MerkleTree(26)
    tree.append(leaves)
    return tree, leaves


def nullify_at(network: Network, tree: MerkleTree, leaf: bytes, leaf_index: int, changelog_index: int) -> object:
    """Clear the leaf at an index with the nullifier of ``leaf``; returns the error."""
    [bucket] = [place for place, value in waiting(network, addresses.NULLIFIER_QUEUE_V1).items() if value == leaf]
    instruction = forester_instructions.nullify(
        FORESTER.pubkey(),
        addresses.forester_epoch(FORESTER.pubkey(), EPOCH),
        addresses.STATE_TREE_V1,
        addresses.NULLIFIER_QUEUE_V1,
        changelog_index=changelog_index,
        queue_index=bucket,
        leaf_index=leaf_index,
        siblings=tree.proof(leaf_index),
    )
    return send(network, [set_compute_unit_limit(400_000), instruction], FORESTER).err


def test_nullify__leaf_changed_since_the_proof__is_refused(network: Network) -> None:
    tree, leaves = queue_two(network)
    before = number_at(content(network, addresses.STATE_TREE_V1), LAST_CHANGE)
    wait_for_turn(network, addresses.NULLIFIER_QUEUE_V1)
    assert nullify_at(network, tree, leaves[1], 1, before) is None
    assert nullify_at(network, tree, leaves[0], 1, before) == {"InstructionError": [1, {"Custom": 10011}]}
    assert nullify_at(network, tree, leaves[0], 0, before) is None


def test_nullify__leaf_behind_the_last__is_refused(network: Network) -> None:
    tree, leaves = queue_two(network)
    last = number_at(content(network, addresses.STATE_TREE_V1), LAST_CHANGE)
    wait_for_turn(network, addresses.NULLIFIER_QUEUE_V1)
    refused = nullify_at(network, tree, leaves[0], len(leaves), last)
    assert refused == {"InstructionError": [1, {"Custom": 10012}]}


def test_update_address_merkle_tree__recorded_transaction__inserts_the_address(network: Network) -> None:
    facts = recorded("v1_txs")["update_address_merkle_tree"]
    inserter = registered_inserter(network)
    row = bytes.fromhex(facts["address"]) + bytes([1, 0])
    accounts = [addresses.ADDRESS_QUEUE_V1, addresses.ADDRESS_TREE_V1]
    insert(inserter, [0, 0, 0, 1], [b"\x00", b"\x00", b"\x01" + row], accounts)
    assert current_root(network, addresses.ADDRESS_TREE_V1) == facts["old_root"]
    wait_for_turn(network, addresses.ADDRESS_QUEUE_V1)
    done = replay(network, facts)
    assert current_root(network, addresses.ADDRESS_TREE_V1) == facts["new_root"]
    assert done.compute_units == facts["compute_units"]


def test_update_address_merkle_tree__built_here__equals_the_recorded_one() -> None:
    facts = recorded("v1_txs")["update_address_merkle_tree"]
    absence = IndexedMerkleTree(1).absence(bytes.fromhex(facts["address"]))
    low = absence.low
    instruction = forester_instructions.update_address_merkle_tree(
        FORESTER.pubkey(),
        addresses.forester_epoch(FORESTER.pubkey(), EPOCH),
        addresses.ADDRESS_TREE_V1,
        addresses.ADDRESS_QUEUE_V1,
        changelog_index=facts["changelog_index"],
        indexed_changelog_index=facts["indexed_changelog_index"],
        queue_index=facts["queue_index"],
        low=forester_instructions.LowElement(low.index, low.value, low.next_index, low.next_value, absence.path),
    )
    assert bytes(instruction.data).hex() == facts["instruction"]["data"]
    assert [str(meta.pubkey) for meta in instruction.accounts] == [
        meta["pubkey"] for meta in facts["instruction"]["accounts"]
    ]
