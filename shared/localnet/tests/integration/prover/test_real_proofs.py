"""Proofs of our prover, made by its command line, verified by the programs on the chain."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from chains import AUTHORITY, FORESTER, USER, funded, send
from forestry import BATCH, Forest, inserted
from indexer_service import FakeNode
from invoking_program import PROGRAM
from program_accounts import Derived, Held, call, install
from prover_command import proof_under, run_prover
from solders.account import Account
from solders.compute_budget import set_compute_unit_limit
from solders.pubkey import Pubkey

from localnet.base58 import encode
from localnet.chain import addresses
from localnet.chain.artefacts import artefacts_folder, load_artefacts
from localnet.chain.network import Network
from localnet.chain.simulated_proofs import simulated_key
from localnet.chain.verifying_keys import VerifyingKey, keys_in_programs, parse_verifying_key, with_verifying_keys
from localnet.indexer.api.service import Service
from localnet.indexer.database.store import Store
from localnet.indexer.following.follower import Follower
from localnet.programs.light_system import Input, NewAddress, Output, invoke
from localnet.users.proofs import IndexedProofs, SimulatedProofs
from localnet.users.traffic import Traffic, TrafficStopped
from shared.requests.witness_inputs import inclusion_request, membership
from shared.trees.merkle_tree import MerkleTree

PUBLISHED = artefacts_folder() / "0.27.0" / "proving-keys"
LAMPORTS = 3_000_000
TREE = Pubkey.from_string("HLKs5NJ8FXkJg8BrzJt56adFYYuwg5etzDtBbQYTsixu")
QUEUE = Pubkey.from_string("6L7SzhYB3anwEQ9cphpJ1U7Scwj57bx2xueReg7R9cKU")
"""The V2 state tree of the 0.27.0 fixtures, and its output queue."""


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("combined_32_40_1_1", "combined_32_40_1_1"),
        ("mainnet_inclusion_26_2", "inclusion_26_2"),
        ("combined_26_2_1", "combined_26_26_2_1"),
    ],
)
def test_export_vk__published_key__is_the_one_in_the_program(tmp_path: Path, file: str, name: str) -> None:
    output = tmp_path / "exported.vkey"
    run_prover("export-vk", "--key", str(PUBLISHED / f"{file}.key"), "--output", str(output))
    assert parse_verifying_key(output.read_bytes()) == published_keys()[name]
    assert parse_verifying_key(output.read_bytes() + bytes(8)) == published_keys()[name]  # as gnark 0.14 ends


@cache
def published_keys() -> dict[str, VerifyingKey]:
    """Return those that the programs of 0.27.0 have, and that the published proving keys belong to."""
    return keys_in_programs(load_artefacts("0.27.0"))


def write_root(network: Network, root: bytes) -> None:
    """Make a root the second one of a tree, as a batch would; the keys of 0.27.0 for batches are not published."""
    account = network.account(TREE)
    assert account is not None
    data = bytearray(account.data)
    data[680:688] = (2).to_bytes(8, "little")
    data[704 + 32 : 704 + 64] = root
    network.set_account(TREE, Account(account.lamports, bytes(data), account.owner))


def test_spend__unmodified_programs__take_our_proof_under_the_published_key_once() -> None:
    network = funded(load_artefacts("0.27.0"))
    output = Output(USER.pubkey(), LAMPORTS, QUEUE)
    done = send(network, [invoke(USER.pubkey(), outputs=[output], compress=LAMPORTS)], USER)
    assert done.err is None, done.logs
    tree = MerkleTree(32)
    tree.append(inserted(done).leaves)
    write_root(network, tree.root)

    def spend(proof: bytes, root_index: int = 1) -> object:
        network.advance()
        spent = Input(USER.pubkey(), LAMPORTS, TREE, QUEUE, 0, root_index)
        instruction = invoke(USER.pubkey(), inputs=[spent], outputs=[output], proof=proof)
        return send(network, [set_compute_unit_limit(1_000_000), instruction], USER).err

    request = inclusion_request([membership(tree, 0)], 2)
    proof = proof_under(PUBLISHED / "inclusion_32_1.key", request)
    # A point of the curve, but not the proof's.
    assert spend(proof[:96] + proof[:32]) == {"InstructionError": [1, {"Custom": 6043}]}
    assert spend(proof, root_index=0) == {"InstructionError": [1, {"Custom": 6043}]}
    assert spend(proof) is None
    assert spend(proof) == {"InstructionError": [1, {"Custom": 14307}]}


KEYS = {
    ("inclusion", 26): "mainnet_inclusion_26_1",
    ("non-inclusion", 26): "non-inclusion_26_1",
    ("combined", 26): "combined_26_1_1",
    ("non-inclusion", 40): "non-inclusion_40_1",
    ("combined", 32): "combined_32_40_1_1",
}
"""Circuit and height of its first trees → published key."""


class CommandProver:
    """Our prover behind the indexer."""

    async def __call__(self, request: dict[str, Any]) -> Any:
        height = request.get("stateTreeHeight") or request["addressTreeHeight"]
        key = str(PUBLISHED / f"{KEYS[request['circuitType'], height]}.key")
        return json.loads(run_prover("prove", "--key", key, stdin=json.dumps(request).encode()))


def programs_with(name: str) -> Network:
    """Return a network of newer programs that know a published V2 key; batches are proved by the trapdoor."""
    published = load_artefacts().with_protocol_authority(AUTHORITY.pubkey())
    keys = {batch: simulated_key(1) for batch in keys_in_programs(published) if batch.startswith("batch_")}
    keys[f"v2_{name}"] = published_keys()[name]
    return Network(with_verifying_keys(published, keys))


@asynccontextmanager
async def indexed(network: Network, folder: Path) -> AsyncIterator[Service]:
    store = Store(folder / "indexer.sqlite", durable=False)
    follower = Follower(network, store)
    network.transaction_listeners.append(lambda *_: follower.wake())
    await follower.catch_up()
    yield Service(store, CommandProver(), FakeNode(), settle=follower.settled)
    store.close()


async def test_seed__unmodified_programs__take_v1_proofs_that_the_indexer_had_made(tmp_path: Path) -> None:
    network = Network(load_artefacts("0.27.0"))
    async with indexed(network, tmp_path) as service:
        traffic = Traffic(network, IndexedProofs(service.call))
        assert await traffic.run("v1_compress", 2) == 2
        assert await traffic.run("v1_spend", 1) == 1
        assert await traffic.run("v1_addresses", 1) == 1
    with pytest.raises(TrafficStopped, match="after 0") as stopped:
        await Traffic(network, SimulatedProofs(network)).run("v1_addresses", 1)
    assert stopped.value.err == {"InstructionError": [1, {"Custom": 6043}]}


async def test_seed__v2_addresses__are_accepted_with_proofs_that_the_indexer_had_made(tmp_path: Path) -> None:
    network = programs_with("non_inclusion_40_1")
    async with indexed(network, tmp_path) as service:
        assert await Traffic(network, IndexedProofs(service.call)).run("addresses", 1) == 1
    with pytest.raises(TrafficStopped, match="after 0") as stopped:
        await Traffic(network, SimulatedProofs(network)).run("addresses", 1)
    assert stopped.value.err == {"InstructionError": [1, {"Custom": 6043}]}


async def test_combined_proof__unmodified_programs__take_a_v1_spend_with_an_address_once(tmp_path: Path) -> None:
    network = Network(load_artefacts("0.27.0"))
    network.airdrop(USER.pubkey(), 10**10)
    made = NewAddress(b"\x2a" * 32, addresses.ADDRESS_TREE_V1, addresses.ADDRESS_QUEUE_V1, 0)
    output = Output(USER.pubkey(), LAMPORTS, addresses.STATE_TREE_V1)
    done = send(network, [invoke(USER.pubkey(), outputs=[output], compress=LAMPORTS)], USER)
    assert done.err is None, done.logs
    async with indexed(network, tmp_path) as service:
        absent = {"address": encode(made.address), "tree": str(made.tree)}
        wanted = {"hashes": [encode(leaf) for leaf in inserted(done).leaves], "newAddressesWithTrees": [absent]}
        value = (await service.call("getValidityProof", wanted))["value"]
        proof = b"".join(bytes(value["compressedProof"][name]) for name in "abc")
        leaf_root, address_root = value["rootIndices"]
        tree, queue = addresses.STATE_TREE_V1, addresses.NULLIFIER_QUEUE_V1
        spent = Input(USER.pubkey(), LAMPORTS, tree, queue, 0, leaf_root)

        def spend(proof: bytes, made: NewAddress) -> object:
            network.advance()
            instruction = invoke(USER.pubkey(), inputs=[spent], outputs=[output], new_addresses=[made], proof=proof)
            return send(network, [set_compute_unit_limit(1_000_000), instruction], USER).err

        made = replace(made, root_index=address_root)
        other = replace(made, seed=b"\x2b" * 32)
        assert spend(proof, other) == {"InstructionError": [1, {"Custom": 6043}]}
        assert spend(proof, made) is None
        assert spend(proof, made) == {"InstructionError": [1, {"Custom": 9002}]}


async def test_combined_proof__v2_account_spent_and_address_made__is_accepted_once(tmp_path: Path) -> None:
    network = programs_with("combined_32_40_1_1")
    for key in (USER, AUTHORITY, FORESTER):
        network.airdrop(key.pubkey(), 10**10)
    install(network)
    forest = Forest(network)
    forest.register()
    held = send(network, [call(USER.pubkey(), made=[None])], USER)
    assert held.err is None, held.logs
    [leaf] = inserted(held).leaves
    forest.queued.append(leaf)
    forest.compress(BATCH - 1)
    assert forest.work(forest.append_instruction()).err is None
    derived = Derived(b"\x2a" * 32)
    async with indexed(network, tmp_path) as service:
        absent = {"address": encode(derived.address), "tree": str(addresses.ADDRESS_TREE)}
        wanted = {"hashes": [encode(leaf)], "newAddressesWithTrees": [absent]}
        value = (await service.call("getValidityProofV2", wanted))["value"]
        proof = b"".join(bytes(value["compressedProof"][name]) for name in "abc")
        spent = Held(0, value["accounts"][0]["rootIndex"]["rootIndex"])
        derived = replace(derived, root_index=value["addresses"][0]["rootIndex"])

        def spend(spent: Held, derived: Derived) -> object:
            network.advance()
            made = call(USER.pubkey(), spent=[spent], made=[derived.address], new=[derived], proof=proof)
            return send(network, [set_compute_unit_limit(1_000_000), made], USER).err

        refused = {"InstructionError": [1, {"Custom": 6043}]}
        assert spend(spent, replace(derived, seed=b"\x2b" * 32)) == refused
        assert spend(replace(spent, root_index=0), derived) == refused
        assert spend(spent, derived) is None
        assert spend(spent, derived) == {"InstructionError": [1, {"Custom": 14307}]}
        made = (await service.call("getCompressedAccountV2", {"address": encode(derived.address)}))["value"]
        assert made["owner"] == str(PROGRAM)
        assert (await service.call("getCompressedAccountV2", {"hash": encode(leaf)}))["value"] is None
