"""V2 addresses as users make them: a compressed mint each, with a proof that the address is new."""

from __future__ import annotations

import pytest
from chains import USER, funded, send, simulated_artefacts
from forestry import BATCH, Forest, inserted, simulated
from solders.compute_budget import set_compute_unit_limit
from solders.keypair import Keypair

from localnet.chain import addresses
from localnet.chain.blocks import RecordedTransaction
from localnet.programs.compressed_token import create_mint, mint_address
from shared.requests.witness_inputs import non_inclusion_request


@pytest.fixture
def forest() -> Forest:
    forest = Forest(funded(simulated_artefacts()))
    forest.register()
    return forest


def create(forest: Forest, signer: Keypair, root_index: int) -> RecordedTransaction:
    request = non_inclusion_request([forest.address_tree.absence(mint_address(signer.pubkey()))])
    instruction = create_mint(USER.pubkey(), signer.pubkey(), root_index, simulated(request))
    return send(forest.network, [set_compute_unit_limit(400_000), instruction], USER, signer)


def signer(number: int) -> Keypair:
    return Keypair.from_seed(f"mint {number}".encode().ljust(32, b"."))


def test_create_mint__ten_of_them__fill_a_batch_that_the_forester_inserts(forest: Forest) -> None:
    for number in range(BATCH):
        done = create(forest, signer(number), 0)
        assert done.err is None, done.logs
        assert len(bytes(done.transaction)) == 842
        forest.queued_addresses.append(mint_address(signer(number).pubkey()))
        forest.queued += inserted(done).leaves
    assert forest.work(forest.address_instruction()).err is None
    assert forest.root(addresses.ADDRESS_TREE) == forest.address_tree.root
    assert forest.work(forest.append_instruction()).err is None
    assert forest.root() == forest.tree.root
    assert create(forest, signer(BATCH), 1).err is None


def test_create_mint__address_still_queued__is_refused(forest: Forest) -> None:
    assert create(forest, signer(0), 0).err is None
    forest.network.advance()
    assert create(forest, signer(0), 0).err == {"InstructionError": [1, {"Custom": 14201}]}


def test_create_mint__proof_for_another_root__is_refused(forest: Forest) -> None:
    done = create(forest, signer(0), 5)
    assert done.err == {"InstructionError": [1, {"Custom": 6043}]}
