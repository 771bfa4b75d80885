"""Trees of other sizes and fees, and the protocol config, on the real programs."""

from __future__ import annotations

import pytest
from administration import (
    PRODUCTION_ADDRESS,
    PRODUCTION_STATE,
    PROTOCOL,
    TEST_ADDRESS,
    initialize_address_tree,
    initialize_state_tree,
    update_forester_weight,
    update_protocol_config,
)
from chains import AUTHORITY, FORESTER, funded, send, simulated_artefacts
from forester_instructions import Pair
from forestry import Forest
from rollover_accounts import CPI_CONTEXT_BYTES, new_account
from solders.account import Account
from solders.compute_budget import set_compute_unit_limit
from solders.instruction import Instruction

from localnet.chain import addresses
from localnet.chain.network import Network
from localnet.programs import registry
from localnet.programs.registry import u64

TREE_FORESTER = slice(80, 112)
"""The key in the account of a V2 tree that may work on it without an epoch, where the tree has no fee."""


@pytest.fixture
def network() -> Network:
    return funded(simulated_artefacts())


def set_up(network: Network, instruction: Instruction) -> None:
    done = send(network, [set_compute_unit_limit(1_400_000), instruction], AUTHORITY)
    assert done.err is None, done.logs


def addresses_from(first: int, count: int) -> list[bytes]:
    return [bytes([0]) + number.to_bytes(31, "big") for number in range(first, first + 7 * count, 7)]


def config(network: Network) -> bytearray:
    account = network.account(addresses.PROTOCOL_CONFIG)
    assert account is not None
    return bytearray(account.data[PROTOCOL])


def test_protocol_config__changed_by_its_authority__keeps_its_genesis(network: Network) -> None:
    wanted = config(network)
    wanted[24:32] = u64(90)  # registration phase
    set_up(network, update_protocol_config(bytes(wanted)))
    assert config(network) == wanted
    wanted[0:8] = u64(5)  # genesis slot
    done = send(network, [update_protocol_config(bytes(wanted))], AUTHORITY)
    assert done.err == {"InstructionError": [0, {"Custom": 6019}]}


def test_state_tree__of_production_size__takes_a_batch_of_500(network: Network) -> None:
    sizes = PRODUCTION_STATE
    pair = Pair(new_account(network, sizes.tree), new_account(network, sizes.queue))
    context = new_account(network, CPI_CONTEXT_BYTES, addresses.LIGHT_SYSTEM)
    set_up(network, initialize_state_tree(sizes, pair.tree, pair.queue, context))
    forest = Forest(network, state=pair, batch=sizes.zkp_batch)
    forest.register()
    for _ in range(sizes.zkp_batch // 10):
        forest.compress()
    done = forest.work(forest.append_instruction())
    assert done.err is None, done.logs
    assert forest.root(pair.tree) == forest.tree.root
    assert forest.work_counter() == sizes.batch


def test_address_tree__of_production_size__takes_a_batch_of_250(network: Network) -> None:
    sizes = PRODUCTION_ADDRESS
    wanted = config(network)
    wanted[104:112] = u64(10_000)  # fee of address trees
    set_up(network, update_protocol_config(bytes(wanted)))
    tree = new_account(network, sizes.tree)
    set_up(network, initialize_address_tree(sizes, tree, fee=10_000))
    forest = Forest(network, address_key=tree, address_batch=sizes.zkp_batch)
    forest.register()
    forest.insert_addresses(addresses_from(1000, sizes.zkp_batch))
    done = forest.work(forest.address_instruction())
    assert done.err is None, done.logs
    assert forest.root(tree) == forest.address_tree.root


def test_address_tree__without_fee__is_refused_to_foresters_of_an_epoch(network: Network) -> None:
    tree = new_account(network, TEST_ADDRESS.tree)
    set_up(network, initialize_address_tree(TEST_ADDRESS, tree, fee=0))
    forest = Forest(network, address_key=tree)
    forest.register()
    forest.insert_addresses(addresses_from(1000, 10))
    assert forest.work(forest.address_instruction()).err == {"InstructionError": [1, {"Custom": 6013}]}


def test_address_tree__with_a_forester_of_its_own__is_served_without_an_epoch(network: Network) -> None:
    tree = new_account(network, TEST_ADDRESS.tree)
    set_up(network, initialize_address_tree(TEST_ADDRESS, tree, fee=0))
    account = network.account(tree)
    assert account is not None
    data = bytearray(account.data)
    data[TREE_FORESTER] = bytes(FORESTER.pubkey())
    network.set_account(tree, Account(account.lamports, bytes(data), account.owner))
    forest = Forest(network, address_key=tree)
    forest.insert_addresses(addresses_from(1000, 10))
    instruction = forest.address_instruction()
    accounts = instruction.accounts
    # An omitted optional account is the program's own address.
    accounts[0] = type(accounts[0])(addresses.REGISTRY, False, False)
    done = forest.work(Instruction(addresses.REGISTRY, bytes(instruction.data), accounts))
    assert done.err is None, done.logs
    assert forest.root(tree) == forest.address_tree.root


def test_forester_weight__changed__is_the_authoritys_to_change(network: Network) -> None:
    derivation = FORESTER.pubkey()
    set_up(network, registry.register_forester(AUTHORITY.pubkey(), AUTHORITY.pubkey(), derivation))
    refused = send(network, [update_forester_weight(derivation, derivation, 7)], FORESTER)
    assert isinstance(refused.err, dict)
    set_up(network, update_forester_weight(AUTHORITY.pubkey(), derivation, 7))
    account = network.account(addresses.forester(derivation))
    assert account is not None
    assert int.from_bytes(account.data[48:56], "little") == 7
