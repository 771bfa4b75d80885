"""A network with users, a forester and an indexer, and random things that they do."""

from __future__ import annotations

import random
from typing import Any

import msgspec
from chains import USER, funded, send, simulated_artefacts
from forestry import BATCH, Forest, inserted
from indexer_chain import rows
from indexer_service import FakeNode
from solders.compute_budget import set_compute_unit_limit
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from localnet.base58 import decode, encode
from localnet.chain import addresses
from localnet.chain.blocks import RecordedTransaction
from localnet.indexer.api.service import Service
from localnet.indexer.follower import Follower
from localnet.indexer.store import Store
from localnet.indexer.trees import all_trees
from localnet.programs.compressed_token import create_mint, mint_address
from localnet.programs.light_system import Input, Output, invoke
from localnet.simulated_prover import prove
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
        actions = [self.compress, self.compress, self.spend_by_index, self.spend_by_proof]
        actions += [self.queue_addresses, self.create_mint]
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

    async def create_mint(self) -> None:
        """A V2 address, shown to be new by the proof that the indexer had made."""
        signer = Keypair.from_seed(self.random.randbytes(32))
        address = mint_address(signer.pubkey())
        wanted = [{"address": encode(address), "tree": str(addresses.ADDRESS_TREE)}]
        value = (await self.service.call("getValidityProofV2", {"newAddressesWithTrees": wanted}))["value"]
        proof = b"".join(bytes(value["compressedProof"][part]) for part in "abc")
        made = create_mint(USER.pubkey(), signer.pubkey(), value["addresses"][0]["rootIndex"], proof)
        done = send(self.network, [set_compute_unit_limit(1_000_000), made], USER, signer)
        assert done.err is None, done.logs
        self.forest.queued += inserted(done).leaves
        self.forest.queued_addresses.append(address)

    async def append(self) -> None:
        self.done(self.forest.work(self.forest.append_instruction()))

    async def nullify(self) -> None:
        self.done(self.forest.work(self.forest.nullify_instruction()))

    async def insert_addresses(self) -> None:
        self.done(self.forest.work(self.forest.address_instruction()))

    def done(self, transaction: RecordedTransaction) -> None:
        assert transaction.err is None, transaction.logs


async def live(store: Store, actions: int, seed: int) -> None:
    """Let them act; after each action roots are compared, and at the end the store with one derived anew."""
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
