"""A batch of each circuit of size 10: proved by our prover under local keys, verified by the programs on the chain."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from chains import AUTHORITY, funded
from forestry import Forest
from prover_command import proof_under
from solders.instruction import Instruction

from localnet.chain import addresses
from localnet.chain.artefacts import artefacts_folder, load_artefacts
from localnet.chain.verifying_keys import with_verifying_keys
from localnet.key_folder import verifying_keys_of
from shared.proof_wire import ProofRequest, encode_request

BATCH_KEYS = artefacts_folder() / "batch"
KEY_FILES = {
    "append": "append-with-proofs_32_10.key",
    "update": "update_32_10.key",
    "address-append": "address-append_40_10.key",
}


@pytest.fixture(scope="module")
def batch_keys() -> Path:
    if len(list(BATCH_KEYS.glob("*.key"))) < 3 and not os.environ.get("ZKC_REQUIRE_REFERENCE"):
        pytest.skip("no batch keys; `make reference-batch-keys` makes them in some minutes")
    return BATCH_KEYS


@pytest.mark.timeout(1200)
def test_batches__each_circuit_of_size_10__our_proofs_move_the_trees(batch_keys: Path) -> None:
    published = load_artefacts().with_protocol_authority(AUTHORITY.pubkey())
    artefacts = with_verifying_keys(published, verifying_keys_of(batch_keys, published))

    def prover(request: ProofRequest) -> bytes:
        return proof_under(batch_keys / KEY_FILES[json.loads(encode_request(request))["circuitType"]], request)

    forest = Forest(funded(artefacts), prover)
    forest.register()
    indices = forest.compress()
    append = forest.append_instruction()
    stale = bytearray(append.data)
    stale[13] ^= 1
    tampered = Instruction(append.program_id, bytes(stale), append.accounts)
    assert forest.work(tampered).err == {"InstructionError": [1, {"Custom": 13006}]}
    assert forest.work(append).err is None
    assert forest.spend(indices).err is None
    assert forest.work(forest.nullify_instruction()).err is None
    assert forest.root() == forest.tree.root
    forest.insert_addresses([bytes([0]) + number.to_bytes(31, "big") for number in range(5, 205, 20)])
    assert forest.work(forest.address_instruction()).err is None
    assert forest.root(addresses.ADDRESS_TREE) == forest.address_tree.root
    forest.network.advance()
    assert forest.work(append).err == {"InstructionError": [1, {"Custom": 14301}]}
