"""Random user actions and batches on the real programs: the indexer's roots equal the chain's after every one."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from chains import USER, funded, send, simulated_artefacts
from forestry import BATCH, Forest, inserted
from indexer_chain import rows
from indexer_service import FakeNode
from solders.compute_budget import set_compute_unit_limit
from solders.pubkey import Pubkey
from test_rollovers import patch, prepare_address_v2

from localnet.chain import addresses
from localnet.chain.blocks import RecordedTransaction
from localnet.chain.network import Network
from localnet.indexer.api.service import Service
from localnet.indexer.base58 import decode, encode
from localnet.indexer.follower import Follower
from localnet.indexer.store import Store
from localnet.indexer.trees import all_trees, find_tree
from localnet.programs.light_system import Input, Output, invoke
from localnet.simulated_prover import prove
from localnet.traffic import Traffic
from shared.proof_wire import encode_proof

LAMPORTS = 1_000_000


class SimulatedProver:
    """Proofs from the trapdoor, without a socket."""

    async def prove(self, request: dict[str, Any]) -> Any:
        return msgspec.json.decode(encode_proof(prove(msgspec.json.encode(request))))


class Life:
    """A network with users, a forester and an indexer."""

    def __init__(self, store: Store, seed: int) -> None:
        self.random = random.Random(seed)
        self.forest = Forest(funded(simulated_artefacts()))
        self.network = self.forest.network
        self.follower = Follower(self.network, store)
        self.store = store
        self.service = Service(store, SimulatedProver(), FakeNode(), settle=self.follower.settled)
        self.network.transaction_listeners.append(lambda *_: self.follower.wake())
        self.forest.register()

    async def check(self) -> None:
        """Every tree is where its account is; the audit of the follower compares the same and more."""
        await self.follower.catch_up()
        assert self.follower.stopped is None
        with self.store.read() as connection:
            trees = {tree.key: tree for tree in all_trees(connection)}
        assert [tree.broken for tree in trees.values() if tree.broken] == []
        for tree in (addresses.STATE_TREE, addresses.ADDRESS_TREE):
            assert trees[bytes(tree)].root == self.forest.root(tree)

    async def accounts(self) -> list[dict[str, Any]]:
        value = await self.service.call("getCompressedAccountsByOwnerV2", {"owner": str(USER.pubkey())})
        items: list[dict[str, Any]] = value["value"]["items"]
        return items

    async def act(self) -> None:
        """One action of a user or of the forester."""
        forest = self.forest
        if self.random.random() < 0.15:  # the forester's phase lasts 200 slots
            self.network.advance()
        actions = [self.compress, self.compress, self.spend_by_index, self.spend_by_proof, self.queue_addresses]
        if len(forest.queued) >= BATCH:
            actions += [self.append] * 2
        if len(forest.spent) >= BATCH:
            actions += [self.nullify] * 2
        if len(forest.queued_addresses) >= BATCH:
            actions += [self.insert_addresses] * 2
        await self.random.choice(actions)()

    async def compress(self) -> None:
        count = self.random.randint(1, 6)
        tree = self.random.choice([addresses.OUTPUT_QUEUE, addresses.OUTPUT_QUEUE, addresses.STATE_TREE_V1])
        outputs = [Output(USER.pubkey(), LAMPORTS, tree)] * count
        self.send(invoke(USER.pubkey(), outputs=outputs, compress=count * LAMPORTS), v2=tree == addresses.OUTPUT_QUEUE)

    def send(self, instruction: Any, *, v2: bool = True) -> RecordedTransaction:
        # Another limit makes equal instructions of one slot distinct transactions.
        limit = 1_000_000 + self.network.transaction_count
        done = send(self.network, [set_compute_unit_limit(limit), instruction], USER)
        assert done.err is None, done.logs
        if v2:
            seen = inserted(done)
            self.forest.queued += seen.leaves
            self.forest.spent += seen.spent
        return done

    async def spend_by_index(self) -> None:
        waiting = [one for one in await self.accounts() if one["proveByIndex"]]
        self.spend(self.random.sample(waiting, min(len(waiting), 4)), None, [])

    async def spend_by_proof(self) -> None:
        """Spend accounts of one version's trees, shown by the proof that the indexer had made."""
        version = self.random.choice((1, 3))
        there = [
            one
            for one in await self.accounts()
            if not one["proveByIndex"] and one["merkleContext"]["treeType"] == version
        ]
        chosen = self.random.sample(there, min(len(there), 2))
        hashes = [one["hash"] for one in chosen]
        if not chosen:
            return
        if version == 1:
            value = (await self.service.call("getValidityProof", {"hashes": hashes}))["value"]
            indices = value["rootIndices"]
        else:
            value = (await self.service.call("getValidityProofV2", {"hashes": hashes}))["value"]
            indices = [one["rootIndex"]["rootIndex"] for one in value["accounts"]]
        proof = b"".join(bytes(value["compressedProof"][part]) for part in "abc")
        self.spend(chosen, proof, indices)

    def spend(self, chosen: list[dict[str, Any]], proof: bytes | None, indices: list[int]) -> None:
        if not chosen:
            return
        inputs = [
            Input(
                USER.pubkey(),
                one["lamports"],
                Pubkey(decode(one["merkleContext"]["tree"])),
                Pubkey(decode(one["merkleContext"]["queue"])),
                one["leafIndex"],
                indices[number] if indices else None,
            )
            for number, one in enumerate(chosen)
        ]
        total = sum(one["lamports"] for one in chosen)
        output = Output(USER.pubkey(), total, addresses.OUTPUT_QUEUE)
        done = self.send(invoke(USER.pubkey(), inputs=inputs, outputs=[output], proof=proof), v2=False)
        seen = inserted(done)
        self.forest.queued += seen.leaves
        if chosen[0]["merkleContext"]["treeType"] == 3:
            self.forest.spent += seen.spent

    async def queue_addresses(self) -> None:
        count = self.random.randint(1, 5)
        self.forest.insert_addresses([bytes(1) + self.random.randbytes(31) for _ in range(count)])

    async def append(self) -> None:
        self.done(self.forest.work(self.forest.append_instruction()))

    async def nullify(self) -> None:
        self.done(self.forest.work(self.forest.nullify_instruction()))

    async def insert_addresses(self) -> None:
        self.done(self.forest.work(self.forest.address_instruction()))

    def done(self, transaction: RecordedTransaction) -> None:
        assert transaction.err is None, transaction.logs


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = Store(tmp_path / "indexer.sqlite")
    yield opened
    opened.close()


async def test_live__random_actions__roots_equal_the_chains_and_a_rebuild_the_store(store: Store) -> None:
    await live(store, actions=50, seed=3)


async def live(store: Store, actions: int, seed: int) -> dict[str, list[str]]:
    life = Life(store, seed)
    await life.check()
    for _ in range(actions):
        await life.act()
        await life.check()
    kept = rows(store)
    await life.follower.rebuild()
    assert rows(store) == kept
    kinds = {one["merkleContext"]["treeType"] for one in await life.accounts()}
    assert kinds == {1, 3}
    return kept


async def test_live__every_kind_of_traffic__agrees_with_the_chain(store: Store) -> None:
    """Among it are V2 addresses made by the token program, whose calls are of other shapes than a wallet's."""
    network = Network(simulated_artefacts())
    follower = Follower(network, store)
    traffic = Traffic(network, simulated_proofs=True)
    sizes = {}
    for kind, count in (("compress", 15), ("spend", 12), ("addresses", 3), ("v1_compress", 4), ("v1_spend", 2)):
        traffic.run(kind, count)
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
    """The chain of the first zkp batch in the account of the output queue (onchain.md section 5.8)."""
    account = life.network.account(addresses.OUTPUT_QUEUE)
    assert account is not None
    return bytes(account.data[3784 + 16 : 3784 + 48])
