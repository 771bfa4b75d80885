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
from localnet.prover.key_folder import verifying_keys_of
from shared.requests.proof_wire import ProofRequest, encode_request

BATCH_KEYS = artefacts_folder() / "batch"
KEY_FILES = {
    "append": "append-with-proofs_32_10.key",
    "update": "update_32_10.key",
    "address-append": "address-append_40_10.key",
}

ROOT, A, C = 13, 45, 141
"""Where a batch instruction has the new root and the first and last points of its proof.

Source: forester/docs/reference/programs.md, "V2 work".
"""


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
    accept_only(forest, append)
    assert forest.spend(indices).err is None
    accept_only(forest, forest.nullify_instruction())
    assert forest.root() == forest.tree.root
    forest.insert_addresses([bytes([0]) + number.to_bytes(31, "big") for number in range(5, 405, 20)])
    accept_only(forest, forest.address_instruction(), replayed=13006)  # ten more addresses wait for another proof
    assert forest.root(addresses.ADDRESS_TREE) == forest.address_tree.root


def accept_only(forest: Forest, instruction: Instruction, replayed: int = 14301) -> None:
    """Require that the programs accept an instruction once, and refuse it with another root or proof."""
    data = bytes(instruction.data)
    other_root = data[:ROOT] + bytes([data[ROOT] ^ 1]) + data[ROOT + 1 :]
    other_proof = data[:C] + data[A : A + 32]  # a point of the curve, but not the proof's
    for changed in (other_root, other_proof):
        altered = Instruction(instruction.program_id, changed, instruction.accounts)
        assert forest.work(altered).err == {"InstructionError": [1, {"Custom": 13006}]}
    assert forest.work(instruction).err is None
    forest.network.advance()
    assert forest.work(instruction).err == {"InstructionError": [1, {"Custom": replayed}]}
