"""Full trees get successors: all four kinds, and what is refused."""

from __future__ import annotations

import forester_instructions
import pytest
from chains import FORESTER, funded, simulated_artefacts
from forester_instructions import Pair
from forestry import Forest
from rollover_accounts import CPI_CONTEXT_BYTES, new_account, patch, prepare_address_v2, twin
from solders.pubkey import Pubkey

from localnet.chain import addresses
from localnet.chain.network import Network

NOT_ROLLED_OVER = 2**64 - 1
ROLLED_OVER_SLOT = 144
"""Offset in a V2 tree; -1 there while it has no successor."""


@pytest.fixture
def forest() -> Forest:
    forest = Forest(funded(simulated_artefacts()))
    forest.register()
    return forest


def number(network: Network, key: Pubkey, at: int) -> int:
    account = network.account(key)
    assert account is not None
    return int.from_bytes(account.data[at : at + 8], "little")


def start(network: Network, key: Pubkey) -> bytes:
    account = network.account(key)
    assert account is not None
    return bytes(account.data[:8])


def test_rollover_address_v2__full_tree__has_a_successor_once(forest: Forest) -> None:
    instruction, old, new = prepare_address_v2(forest)
    patch(forest.network, old, 10**12, at240=2**40 - 1)
    assert forest.work(instruction).err is None
    assert start(forest.network, new) == b"BatchMta"
    assert number(forest.network, old, ROLLED_OVER_SLOT) == forest.network.slot
    assert number(forest.network, new, ROLLED_OVER_SLOT) == NOT_ROLLED_OVER
    instruction, _, _ = prepare_address_v2(forest)
    assert forest.work(instruction).err == {"InstructionError": [1, {"Custom": 14003}]}


def test_rollover_address_v2__tree_with_room__is_refused(forest: Forest) -> None:
    instruction, old, new = prepare_address_v2(forest)
    assert forest.work(instruction).err == {"InstructionError": [1, {"Custom": 14006}]}
    assert number(forest.network, old, ROLLED_OVER_SLOT) == NOT_ROLLED_OVER
    assert start(forest.network, new) == bytes(8)


def test_rollover_state_v2__full_tree__has_a_successor_with_queue_and_context(forest: Forest) -> None:
    network = forest.network
    old = Pair(addresses.STATE_TREE, addresses.OUTPUT_QUEUE)
    new = Pair(twin(network, old.tree), twin(network, old.queue))
    context = new_account(network, CPI_CONTEXT_BYTES, addresses.LIGHT_SYSTEM)
    patch(network, old.tree, 10**12, at240=2**32 - 1)
    patch(network, old.queue, 10**12, at280=2**32 - 1)
    instruction = forester_instructions.rollover_state_v2(FORESTER.pubkey(), forest.epoch_account, old, new, context)
    done = forest.work(instruction)
    assert done.err is None, done.logs
    assert (start(network, new.tree), start(network, new.queue)) == (b"BatchMta", b"queueacc")
    assert number(network, old.tree, ROLLED_OVER_SLOT) == network.slot


def test_rollover_state_v2__context_of_another_size__is_refused(forest: Forest) -> None:
    network = forest.network
    old = Pair(addresses.STATE_TREE, addresses.OUTPUT_QUEUE)
    new = Pair(twin(network, old.tree), twin(network, old.queue))
    context = new_account(network, CPI_CONTEXT_BYTES - 8, addresses.LIGHT_SYSTEM)
    instruction = forester_instructions.rollover_state_v2(FORESTER.pubkey(), forest.epoch_account, old, new, context)
    assert forest.work(instruction).err == {"InstructionError": [1, {"Custom": 6018}]}


def test_rollover_state_v1__full_tree__has_a_successor(forest: Forest) -> None:
    network = forest.network
    old = Pair(addresses.STATE_TREE_V1, addresses.NULLIFIER_QUEUE_V1)
    new = Pair(twin(network, old.tree), twin(network, old.queue))
    context = new_account(network, CPI_CONTEXT_BYTES, addresses.LIGHT_SYSTEM)
    patch(network, old.tree, 10**12, at240=2**26 - 1)
    patch(network, old.queue, 10**12)
    instruction = forester_instructions.rollover_state_v1(FORESTER.pubkey(), forest.epoch_account, old, new, context)
    done = forest.work(instruction)
    assert done.err is None, done.logs
    assert start(network, new.tree) == start(network, old.tree)
    assert start(network, new.queue) == start(network, old.queue)


def test_rollover_address_v1__full_tree__has_a_successor(forest: Forest) -> None:
    network = forest.network
    old = Pair(addresses.ADDRESS_TREE_V1, addresses.ADDRESS_QUEUE_V1)
    new = Pair(twin(network, old.tree), twin(network, old.queue))
    patch(network, old.tree, 10**12, at240=2**26 - 1)
    patch(network, old.queue, 10**12)
    instruction = forester_instructions.rollover_address_v1(FORESTER.pubkey(), forest.epoch_account, old, new)
    done = forest.work(instruction)
    assert done.err is None, done.logs
    assert start(network, new.tree) == start(network, old.tree)
    assert start(network, new.queue) == start(network, old.queue)
