"""A network with users, a forester and an indexer, and random things that they do."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import msgspec
from chains import USER, funded, send, simulated_artefacts
from forestry import BATCH, Forest, inserted
from indexer_chain import rows
from indexer_service import FakeNode
from invoking_program import PROGRAM
from program_accounts import Derived, Held, call, install
from solders.compute_budget import set_compute_unit_limit
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from v1_work import address_instruction, nullify_instruction, root_v1, waiting

from localnet.base58 import decode, encode
from localnet.chain import addresses
from localnet.chain.blocks import RecordedTransaction
from localnet.indexer.api.service import Service
from localnet.indexer.database.store import Store
from localnet.indexer.database.trees import all_trees
from localnet.indexer.following.follower import Follower
from localnet.programs.compressed_token import create_mint, mint_address
from localnet.programs.light_system import Input, NewAddress, Output, invoke
from localnet.prover.simulated import prove
from shared.requests.proof_wire import encode_proof

LAMPORTS = 1_000_000
OWNER = USER.pubkey()
ACTIONS = {
    *("compress", "spend_by_index", "spend_by_proof", "queue_addresses", "create_mint", "queue_v1_address"),
    *("make_held", "change_held", "append", "nullify", "insert_addresses", "nullify_v1", "insert_v1_address"),
}


class SimulatedProver:
    """Proofs from the trapdoor, without a socket."""

    async def __call__(self, request: dict[str, Any]) -> Any:
        return msgspec.json.decode(encode_proof(prove(msgspec.json.encode(request))))


class Life:
    """A network with users, a forester and an indexer."""

    def __init__(self, store: Store, seed: int) -> None:
        self.random = random.Random(seed)
        self.forest = Forest(funded(simulated_artefacts()))
        self.network = self.forest.network
        install(self.network)
        self.follower = Follower(self.network, store)
        self.store = store
        self.service = Service(store, SimulatedProver(), FakeNode(), settle=self.follower.settled)
        self.network.transaction_listeners.append(lambda *_: self.follower.wake())
        self.forest.register()
        self.done_by: Counter[str] = Counter()

    async def check(self) -> None:
        """Compare every tree with its account; the audit of the follower compares the same and more."""
        await self.follower.catch_up()
        assert self.follower.stopped is None
        with self.store.read() as connection:
            trees = {tree.key: tree for tree in all_trees(connection)}
        assert [tree.broken for tree in trees.values() if tree.broken] == []
        for tree in (addresses.STATE_TREE, addresses.ADDRESS_TREE):
            assert trees[bytes(tree)].root == self.forest.root(tree)
        for tree in (addresses.STATE_TREE_V1, addresses.ADDRESS_TREE_V1):
            assert trees[bytes(tree)].root == root_v1(self.network, tree)
        await self.check_v1_queues()

    async def check_v1_queues(self) -> None:
        """Compare the queues that the indexer serves with what a V1 forester finds in the accounts."""
        nullifiers = waiting(self.network, addresses.NULLIFIER_QUEUE_V1).values()
        new = waiting(self.network, addresses.ADDRESS_QUEUE_V1).values()
        with self.store.read() as connection:
            spent = connection.execute(
                "SELECT hash FROM accounts WHERE tree = (SELECT id FROM trees WHERE key = ?) AND queue_index NOT NULL",
                (bytes(addresses.STATE_TREE_V1),),
            ).fetchall()
            queued = connection.execute(
                "SELECT address FROM address_queue WHERE tree = (SELECT id FROM trees WHERE key = ?)",
                (bytes(addresses.ADDRESS_TREE_V1),),
            ).fetchall()
        assert sorted(value for (value,) in spent) == sorted(nullifiers)
        assert sorted(value for (value,) in queued) == sorted(new)
        for method, values in (
            ("getMultipleCompressedAccountProofs", nullifiers),
            ("getMultipleNewAddressProofs", new),
        ):
            if values:
                answer = await self.service.call(method, [encode(value) for value in values])
                assert [one["address" if "address" in one else "hash"] for one in answer["value"]] == [
                    encode(value) for value in values
                ]

    async def accounts(self, owner: Pubkey = OWNER) -> list[dict[str, Any]]:
        value = await self.service.call("getCompressedAccountsByOwnerV2", {"owner": str(owner)})
        items: list[dict[str, Any]] = value["value"]["items"]
        return items

    async def act(self) -> None:
        """Do one action of a user or of the forester."""
        forest = self.forest
        if self.random.random() < 0.15:  # the forester's phase lasts 200 slots
            self.network.advance()
        actions: list[Callable[[], Awaitable[None]]] = []
        # A queue of the fixtures holds 100.
        if max(len(forest.queued), len(forest.spent), len(forest.queued_addresses)) < 80:
            actions += [self.compress, self.compress, self.spend_by_index, self.spend_by_proof]
            actions += [self.queue_addresses, self.create_mint, self.queue_v1_address]
            actions += [self.make_held, self.change_held, self.change_held]
        if len(forest.queued) >= BATCH:
            actions += [self.append] * 2
        if len(forest.spent) >= BATCH:
            actions += [self.nullify] * 2
        if len(forest.queued_addresses) >= BATCH:
            actions += [self.insert_addresses] * 2
        if waiting(self.network, addresses.NULLIFIER_QUEUE_V1):
            actions.append(self.nullify_v1)
        if waiting(self.network, addresses.ADDRESS_QUEUE_V1):
            actions.append(self.insert_v1_address)
        chosen, before = self.random.choice(actions), self.network.transaction_count
        await chosen()
        self.done_by[chosen.__name__] += self.network.transaction_count > before

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
        """Create a V2 address, with the proof from the indexer."""
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

    async def make_held(self) -> None:
        """Create accounts with data, which a program owns."""
        self.send(call(USER.pubkey(), made=[None] * self.random.randint(1, 3)))

    async def change_held(self) -> None:
        """Let a program spend an account and create one with a new address, with one proof for both."""
        held = [one for one in await self.accounts(PROGRAM) if not one["proveByIndex"]]
        if not held:
            return
        chosen = self.random.choice(held)
        derived = Derived(self.random.randbytes(32))
        absent = {"address": encode(derived.address), "tree": str(addresses.ADDRESS_TREE)}
        wanted = {"hashes": [chosen["hash"]], "newAddressesWithTrees": [absent]}
        value = (await self.service.call("getValidityProofV2", wanted))["value"]
        address = decode(chosen["address"]) if chosen["address"] else None
        spent = Held(chosen["leafIndex"], value["accounts"][0]["rootIndex"]["rootIndex"], address)
        derived = Derived(derived.seed, value["addresses"][0]["rootIndex"])
        proof = b"".join(bytes(value["compressedProof"][part]) for part in "abc")
        self.send(call(USER.pubkey(), spent=[spent], made=[address, derived.address], new=[derived], proof=proof))
        self.forest.queued_addresses.append(derived.address)

    async def queue_v1_address(self) -> None:
        made = NewAddress(self.random.randbytes(32), addresses.ADDRESS_TREE_V1, addresses.ADDRESS_QUEUE_V1, 0)
        absent = {"address": encode(made.address), "tree": str(made.tree)}
        value = (await self.service.call("getValidityProof", {"newAddressesWithTrees": [absent]}))["value"]
        made = replace(made, root_index=value["rootIndices"][0])
        proof = b"".join(bytes(value["compressedProof"][part]) for part in "abc")
        self.send(invoke(USER.pubkey(), new_addresses=[made], proof=proof), v2=False)

    async def nullify_v1(self) -> None:
        bucket, leaf = self.random.choice(list(waiting(self.network, addresses.NULLIFIER_QUEUE_V1).items()))
        [proof] = (await self.service.call("getMultipleCompressedAccountProofs", [encode(leaf)]))["value"]
        self.done(self.forest.work(nullify_instruction(self.forest, bucket, proof)))

    async def insert_v1_address(self) -> None:
        bucket, address = self.random.choice(list(waiting(self.network, addresses.ADDRESS_QUEUE_V1).items()))
        [proof] = (await self.service.call("getMultipleNewAddressProofs", [encode(address)]))["value"]
        self.done(self.forest.work(address_instruction(self.forest, bucket, proof)))

    async def append(self) -> None:
        self.done(self.forest.work(self.forest.append_instruction()))

    async def nullify(self) -> None:
        self.done(self.forest.work(self.forest.nullify_instruction()))

    async def insert_addresses(self) -> None:
        self.done(self.forest.work(self.forest.address_instruction()))

    def done(self, transaction: RecordedTransaction) -> None:
        assert transaction.err is None, transaction.logs


async def live(store: Store, actions: int, seed: int) -> None:
    """Let them act; compare roots after each action, and at the end the store with one derived again."""
    life = Life(store, seed)
    await life.check()
    for _ in range(actions):
        await life.act()
        await life.check()
    kept = rows(store)
    await life.follower.rebuild()
    assert rows(store) == kept
    assert set(+life.done_by) == ACTIONS
