"""V2 trees and queues that are full, and values that were queued before: what the programs answer."""

from __future__ import annotations

import pytest
from chains import funded, registered_inserter, simulated_artefacts
from forestry import BATCH, Forest, address_insertion
from rollover_accounts import patch

from localnet.chain import addresses
from localnet.chain.blocks import JsonError

ZKP_BATCHES = 5
"""In each of the two batches of a queue of the fixtures."""


@pytest.fixture
def forest() -> Forest:
    forest = Forest(funded(simulated_artefacts()))
    forest.register()
    return forest


def address(number: int) -> bytes:
    return bytes([0]) + (1000 + 7 * number).to_bytes(31, "big")


def queue_address(forest: Forest, number: int) -> JsonError | None:
    """Queue one address more; returns the error."""
    inserter = registered_inserter(forest.network)
    forest.network.advance()
    return inserter.insert(address_insertion([address(number)]), [addresses.ADDRESS_TREE]).err


def fill(forest: Forest, batches: int) -> None:
    forest.insert_addresses([address(number) for number in range(batches * ZKP_BATCHES * BATCH)])


def custom(code: int, instruction: int = 0) -> JsonError:
    return {"InstructionError": [instruction, {"Custom": code}]}


def test_append__tree_without_room__is_refused(forest: Forest) -> None:
    forest.compress()
    patch(forest.network, addresses.STATE_TREE, 0, at240=2**32)
    assert forest.work(forest.append_instruction()).err == custom(14310, instruction=1)


def test_insert_addresses__tree_without_room__is_refused(forest: Forest) -> None:
    patch(forest.network, addresses.ADDRESS_TREE, 0, at312=2**40)
    assert queue_address(forest, 0) == custom(14310)


def test_insert_addresses__queued_in_the_same_batch__is_refused(forest: Forest) -> None:
    assert queue_address(forest, 0) is None
    assert queue_address(forest, 0) == custom(14201)


def test_insert_addresses__queued_in_the_other_batch__is_refused(forest: Forest) -> None:
    fill(forest, batches=1)
    assert queue_address(forest, 0) == custom(14311)


def test_insert_addresses__both_batches_full__wait_for_the_forester(forest: Forest) -> None:
    fill(forest, batches=2)
    assert queue_address(forest, 100) == custom(14301)
    for _ in range(ZKP_BATCHES):
        assert forest.work(forest.address_instruction()).err is None
    assert queue_address(forest, 100) is None
    assert forest.root(addresses.ADDRESS_TREE) == forest.address_tree.root


def test_insert_addresses__filter_of_the_batch_not_cleared__wait_for_the_forester(forest: Forest) -> None:
    fill(forest, batches=1)
    for _ in range(ZKP_BATCHES):
        assert forest.work(forest.address_instruction()).err is None
    # The filter is cleared by work that finds the other batch half full: none came since that was empty.
    forest.insert_addresses([address(number) for number in range(50, 100)])
    assert queue_address(forest, 100) == custom(14312)
    assert forest.work(forest.address_instruction()).err is None
    assert queue_address(forest, 100) is None
    assert forest.root(addresses.ADDRESS_TREE) == forest.address_tree.root
