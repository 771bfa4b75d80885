"""Eligibility, and the queue after a spend (forester/docs/reference/programs.md, "Eligibility")."""

from __future__ import annotations

import forester_instructions
import pytest
from administration import update_forester_weight
from chains import AUTHORITY, FORESTER, USER, funded, send, simulated_artefacts
from forestry import ACTIVE_SLOT, BATCH, EPOCH, Forest
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair

from localnet.chain import addresses
from localnet.chain.blocks import JsonError
from localnet.programs import registry
from localnet.programs.light_system import Output, invoke

VALUES = 552 + 16
"""Where the values of the first batch begin in an output queue of test size.

Source: forester/docs/reference/accounts.md, "V2 output queue".
"""
CHAINS = 3784 + 16
FINALIZATIONS = 100
"""As many as the protocol config of the fixtures allows."""


def custom(index: int, code: int) -> JsonError:
    return {"InstructionError": [index, {"Custom": code}]}


@pytest.fixture
def forest() -> Forest:
    return Forest(funded(simulated_artefacts()))


def admit(forest: Forest) -> None:
    admitted = registry.register_forester(AUTHORITY.pubkey(), AUTHORITY.pubkey(), FORESTER.pubkey())
    assert send(forest.network, [admitted], AUTHORITY).err is None


def test_register_forester_epoch__without_weight__is_refused(forest: Forest) -> None:
    admit(forest)
    weightless = update_forester_weight(AUTHORITY.pubkey(), FORESTER.pubkey(), 0)
    assert send(forest.network, [weightless], AUTHORITY).err is None
    registration = forester_instructions.register_forester_epoch(FORESTER.pubkey(), FORESTER.pubkey(), EPOCH)
    assert send(forest.network, [registration], FORESTER).err == custom(0, 6006)


def test_append__registration_not_finalized__is_refused(forest: Forest) -> None:
    admit(forest)
    registration = forester_instructions.register_forester_epoch(FORESTER.pubkey(), FORESTER.pubkey(), EPOCH)
    assert send(forest.network, [registration], FORESTER).err is None
    forest.network.warp(ACTIVE_SLOT)
    forest.compress()
    assert forest.work(forest.append_instruction()).err == custom(1, 6017)


def test_append__finalized_in_the_same_transaction__is_accepted(forest: Forest) -> None:
    admit(forest)
    registration = forester_instructions.register_forester_epoch(FORESTER.pubkey(), FORESTER.pubkey(), EPOCH)
    assert send(forest.network, [registration], FORESTER).err is None
    forest.network.warp(ACTIVE_SLOT)
    forest.compress()
    final = forester_instructions.finalize_registration(FORESTER.pubkey(), FORESTER.pubkey(), EPOCH)
    assert forest.work(final, forest.append_instruction()).err is None


def test_finalize_registration__more_often_than_allowed__is_refused(forest: Forest) -> None:
    forest.register()
    final = forester_instructions.finalize_registration(FORESTER.pubkey(), FORESTER.pubkey(), EPOCH)
    for _ in range((FINALIZATIONS - 1) // 9):
        forest.network.advance()
        assert send(forest.network, [final] * 9, FORESTER).err is None
    forest.network.advance()
    assert send(forest.network, [final], FORESTER).err == custom(0, 6014)


def test_append__signed_by_another_key__is_refused(forest: Forest) -> None:
    forest.register()
    forest.compress()
    instruction = forest.append_instruction()
    other = Keypair.from_seed(b"impostor".ljust(32, b"."))
    forest.network.airdrop(other.pubkey(), 10**10)
    metas = [
        AccountMeta(other.pubkey(), meta.is_signer, meta.is_writable) if meta.pubkey == FORESTER.pubkey() else meta
        for meta in instruction.accounts
    ]
    done = send(forest.network, [Instruction(addresses.REGISTRY, bytes(instruction.data), metas)], other)
    assert done.err == custom(0, 6000)


def test_spend__account_in_the_queue__clears_its_value_and_keeps_the_chain(forest: Forest) -> None:
    [first, *_] = forest.compress()

    def part(at: int) -> bytes:
        account = forest.network.account(addresses.OUTPUT_QUEUE)
        assert account is not None
        return bytes(account.data[at : at + 32])

    assert part(VALUES) == forest.queued[0]
    chain = part(CHAINS)
    assert forest.spend([first]).err is None
    assert part(VALUES) == bytes(32)
    assert part(CHAINS) == chain


def test_spend__account_of_a_batch_that_is_in_the_tree__still_goes_by_its_index(forest: Forest) -> None:
    forest.register()
    indices = [index for _ in range(5) for index in forest.compress()]
    for _ in range(5):
        assert forest.work(forest.append_instruction()).err is None
    assert forest.spend(indices[-BATCH:]).err is None
    assert forest.work(forest.nullify_instruction()).err is None
    assert forest.root() == forest.tree.root


@pytest.mark.parametrize(("outputs", "cost"), [(1, 5001), (5, 5005), (10, 5010)])
def test_compress__outputs__cost_a_network_fee_and_one_lamport_each(forest: Forest, outputs: int, cost: int) -> None:
    made = [Output(USER.pubkey(), 1_000_000, addresses.OUTPUT_QUEUE)] * outputs
    done = send(forest.network, [invoke(USER.pubkey(), outputs=made, compress=outputs * 1_000_000)], USER)
    assert done.err is None
    paid = done.pre_balances[0] - done.post_balances[0]
    assert paid == outputs * 1_000_000 + cost + done.fee
