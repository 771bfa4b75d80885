"""Random user actions and batches on the real programs: the indexer's roots equal the chain's after every one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from chains import funded, simulated_artefacts
from forestry import BATCH, Forest
from indexer_life import Life, SimulatedProver, live
from indexer_service import FakeNode
from rollover_accounts import patch, prepare_address_v2
from v1_work import waiting

from localnet.base58 import encode
from localnet.chain import addresses
from localnet.chain.network import Network
from localnet.indexer.api.service import Service
from localnet.indexer.database.store import Store
from localnet.indexer.database.trees import all_trees, find_tree
from localnet.indexer.following.follower import Follower
from localnet.json_rpc import RpcError
from localnet.users.proofs import SimulatedProofs
from localnet.users.traffic import Traffic


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = Store(tmp_path / "indexer.sqlite", durable=False)
    yield opened
    opened.close()


async def test_live__random_actions__roots_equal_the_chains_and_a_rebuild_the_store(store: Store) -> None:
    await live(store, actions=50, seed=4)


async def test_live__every_kind_of_traffic__agrees_with_the_chain(store: Store) -> None:
    """The traffic includes V2 addresses made by the token program, whose calls have other shapes than a wallet's."""
    network = Network(simulated_artefacts())
    follower = Follower(network, store)
    traffic = Traffic(network, SimulatedProofs(network))
    sizes = {}
    for kind, count in (
        ("compress", 15),
        ("spend", 12),
        ("addresses", 3),
        ("v1_compress", 4),
        ("v1_spend", 2),
        ("v1_addresses", 2),
    ):
        await traffic.run(kind, count)
        await follower.catch_up()
        assert follower.stopped is None
    service = Service(store, SimulatedProver(), FakeNode())
    for queue in (await service.call("getQueueInfo", {}))["queues"]:
        sizes[queue["tree"], queue["queueType"]] = queue["queueSize"]
    assert sizes[str(addresses.STATE_TREE), 3] == 12
    assert sizes[str(addresses.ADDRESS_TREE), 4] == 3
    with store.read() as connection:
        assert [tree.broken for tree in all_trees(connection) if tree.broken] == []
        (addressed,) = connection.execute("SELECT count(*) FROM accounts WHERE address IS NOT NULL").fetchone()
    assert addressed == 3


async def test_v1_address__waiting_in_its_queue__is_proved_absent_to_foresters_only(store: Store) -> None:
    life = Life(store, 1)
    await life.queue_v1_address()
    [address] = waiting(life.network, addresses.ADDRESS_QUEUE_V1).values()
    answer = await life.service.call("getMultipleNewAddressProofs", [encode(address)])
    assert answer["value"][0]["address"] == encode(address)
    wanted = {"newAddressesWithTrees": [{"address": encode(address), "tree": str(addresses.ADDRESS_TREE_V1)}]}
    with pytest.raises(RpcError, match=f"Address {encode(address)} already exists"):
        await life.service.call("getValidityProof", wanted)


async def test_live__tree_rolled_over__its_successor_is_known(store: Store) -> None:
    forest = Forest(funded(simulated_artefacts()))
    forest.register()
    follower = Follower(forest.network, store)
    await follower.catch_up()
    instruction, old, new = prepare_address_v2(forest)
    patch(forest.network, old, 10**12, at240=2**40 - 1)
    assert forest.work(instruction).err is None
    await follower.catch_up()
    with store.read() as connection:
        tree = find_tree(connection, bytes(new))
    assert tree is not None
    assert (tree.sequence, tree.next_index, tree.height) == (0, 1, 40)


async def test_queue_elements__of_a_live_network__are_what_the_forester_has_seen(store: Store) -> None:
    life = Life(store, 5)
    for _ in range(3):
        await life.compress()
        life.network.advance()
    life.forest.compress(BATCH)
    part = {"limit": BATCH, "zkpBatchSize": BATCH}
    answer = await life.service.call("getQueueElements", {"tree": str(addresses.STATE_TREE), "outputQueue": part})
    queue = answer["stateQueue"]["outputQueue"]
    assert queue["accountHashes"] == [encode(leaf) for leaf in life.forest.queued[:BATCH]]
    assert queue["leavesHashChains"] == [encode(onchain_chain(life))]


def onchain_chain(life: Life) -> bytes:
    """Return the chain of the first zkp batch in the account of the output queue.

    Source: forester/docs/reference/accounts.md, "V2 output queue".
    """
    account = life.network.account(addresses.OUTPUT_QUEUE)
    assert account is not None
    return bytes(account.data[3784 + 16 : 3784 + 48])
