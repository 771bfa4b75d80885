"""A chain of made-up transactions: random user actions and batches, its trees kept by other code than the indexer's."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field

from localnet.indexer import programs
from localnet.indexer.database.store import Store
from localnet.indexer.database.trees import add_default_tree
from localnet.indexer.decoding.hashing import (
    AccountData,
    CompressedAccount,
    account_hash,
)
from localnet.indexer.decoding.instructions import INVOKE
from localnet.indexer.decoding.source import Block, Group, Instruction, Transaction
from localnet.indexer.programs import TreeType
from shared.requests import witness_inputs
from shared.trees.field import ZERO
from shared.trees.indexed_merkle_tree import IndexedMerkleTree
from shared.trees.merkle_tree import MerkleTree

BATCH = 10
FIRST_SLOT = 100


def key(name: str) -> bytes:
    return name.encode().ljust(32, b".")


STATE, QUEUE, ADDRESSES = key("state tree"), key("output queue"), key("address tree")
STATE_V1, QUEUE_V1, ADDRESSES_V1 = key("state tree V1"), key("nullifier queue V1"), key("address tree V1")


@dataclass
class Leaf:
    """An unspent account."""

    hash: bytes
    index: int
    account: CompressedAccount


@dataclass
class SimulatedChain:
    """Grows by random actions; ``roots`` are those of the trees after each block."""

    seed: int
    blocks: list[Block] = field(default_factory=list)
    roots: list[dict[bytes, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.state, self.addresses = MerkleTree(32), IndexedMerkleTree(2)
        self.state_v1, self.addresses_v1 = MerkleTree(26), IndexedMerkleTree(1)
        self.sequences = {STATE: 0, ADDRESSES: 0, STATE_V1: 0, ADDRESSES_V1: 3}
        self.unspent: dict[bytes, list[Leaf]] = {STATE: [], STATE_V1: []}
        self.queued: list[bytes] = []
        self.nullifiers: list[tuple[int, bytes]] = []
        self.waiting: list[bytes] = []
        self.spent_v1: list[Leaf] = []
        self.counts = {"outputs": 0, "inputs": 0, "addresses": 0}
        self.transactions = 0

    def grow(self, actions: int) -> None:
        """Add blocks of one to four transactions."""
        while actions > 0:
            slot = FIRST_SLOT + 3 * len(self.blocks)
            count = min(actions, self.random.randint(1, 4))
            transactions = tuple(self._transaction(slot) for _ in range(count))
            self.blocks.append(Block(slot, 1_700_000_000 + slot, slot.to_bytes(32, "big"), transactions))
            self.roots.append(
                {
                    STATE: self.state.root,
                    ADDRESSES: self.addresses.root,
                    STATE_V1: self.state_v1.root,
                    ADDRESSES_V1: self.addresses_v1.root,
                }
            )
            actions -= count

    def _transaction(self, slot: int) -> Transaction:
        self.transactions += 1
        signature = self.transactions.to_bytes(64, "big")
        chosen = self.random.random()
        if chosen < 0.05:
            # Failed: whatever it did is not there.
            junk = Instruction(programs.ACCOUNT_COMPRESSION, (), programs.INSERT_INTO_QUEUES, 1)
            return Transaction(signature, ((junk,),), "Error processing Instruction 0: custom program error: 0x1771")
        work = self._batch() if chosen < 0.35 else None
        return Transaction(signature, (work or self._user(slot),))

    # Users

    def _user(self, slot: int) -> Group:
        tree, tree_type = self.random.choice([(STATE, TreeType.STATE_V2), (STATE_V1, TreeType.STATE_V1)])
        inputs = self._take(tree)
        outputs = [self._account() for _ in range(self.random.randint(0 if inputs else 1, 4))]
        new = [self._address() for _ in range(self.random.choice((0, 0, 1, 3)))]
        batched = tree_type is TreeType.STATE_V2
        first = self.counts["outputs"] if batched else self.state_v1.next_index
        made = [
            Leaf(account_hash(account, tree, tree_type, first + i), first + i, account)
            for i, account in enumerate(outputs)
        ]
        with_hash = batched and inputs
        tx_hash = witness_inputs.tx_hash([i.hash for i in inputs], [o.hash for o in made], slot) if with_hash else ZERO
        insertion = self._insertion(tree, tree_type, inputs, made, new, tx_hash)
        self.unspent[tree] += made
        if batched:
            self.queued += [leaf.hash for leaf in made]
            self.nullifiers += [
                (leaf.index, witness_inputs.nullifier(leaf.hash, leaf.index, tx_hash)) for leaf in inputs
            ]
            self.counts["outputs"] += len(made)
            self.counts["inputs"] += len(inputs)
        else:
            self.state_v1.append([leaf.hash for leaf in made])
            self.sequences[STATE_V1] += len(made)
            self.spent_v1 += inputs
        self.counts["addresses"] += len(new)
        self.waiting += new
        light = Instruction(programs.LIGHT_SYSTEM, (), invoke_data(outputs), 1)
        transfer = Instruction(programs.SOLANA_SYSTEM, (), bytes(12), 2)
        return (light, transfer, insertion)

    def _take(self, tree: bytes) -> list[Leaf]:
        available = self.unspent[tree]
        chosen = self.random.sample(available, min(len(available), self.random.choice((0, 1, 1, 3))))
        for leaf in chosen:
            available.remove(leaf)
        return chosen

    def _account(self) -> CompressedAccount:
        owner = key(f"owner {self.random.randrange(4)}")
        kind = self.random.randrange(3)
        if kind == 0:
            return CompressedAccount(owner, self.random.randrange(2**64), None, None)
        if kind == 1:
            address = bytes(1) + self.random.randbytes(31)
            data = AccountData(
                self.random.randbytes(8), self.random.randbytes(20), bytes(1) + self.random.randbytes(31)
            )
            return CompressedAccount(owner, 0, address, data)
        token = key("mint") + owner + self.random.randrange(2**64).to_bytes(8, "little") + bytes(3)
        data = AccountData(bytes((2, 0, 0, 0, 0, 0, 0, 0)), token, bytes(1) + self.random.randbytes(31))
        return CompressedAccount(programs.COMPRESSED_TOKEN, 0, None, data)

    def _address(self) -> bytes:
        return bytes(1) + self.random.randbytes(31)

    def _insertion(
        self, tree: bytes, tree_type: TreeType, spent: list[Leaf], made: list[Leaf], new: list[bytes], tx_hash: bytes
    ) -> Instruction:
        """Return ``insert_into_queues``; listed accounts: 0 tree, 1 queue, 2 address tree."""
        batched = tree_type is TreeType.STATE_V2
        queue = QUEUE if batched else tree
        data = programs.INSERT_INTO_QUEUES + bytes(4) + bytes(6) + tx_hash
        data += bytes([len(made)]) + b"".join(bytes([1 if batched else 0]) + leaf.hash for leaf in made)
        data += bytes([len(spent)])
        data += b"".join(leaf.hash + struct.pack("<IBBB", leaf.index, 0, 0, 1) for leaf in spent)
        data += bytes([len(new)]) + b"".join(address + bytes([2, 2]) for address in new)
        first = self.counts["outputs"] if batched else self.sequences[STATE_V1] + 1
        data += self._sequences(tree, queue, tree_type, first)
        data += self._sequences(tree, queue, tree_type, self.counts["inputs"]) if batched else b"\0"
        data += self._sequences(ADDRESSES, ADDRESSES, TreeType.ADDRESS_V2, self.counts["addresses"])
        data += bytes([len(made)]) + b"".join(struct.pack("<I", leaf.index) for leaf in made) + bytes(4)
        accounts = (key("authority"), programs.LIGHT_SYSTEM_REGISTERED, tree, queue, ADDRESSES)
        return Instruction(programs.ACCOUNT_COMPRESSION, accounts, data, 2)

    def _sequences(self, tree: bytes, queue: bytes, tree_type: TreeType, number: int) -> bytes:
        unused = bytes(80)
        return bytes([2]) + tree + queue + struct.pack("<QQ", tree_type, number) + unused

    # Foresters

    def _batch(self) -> Group | None:
        appended = self.state.next_index
        ready = {
            "append": len(self.queued) - appended >= BATCH,
            "nullify": len(self.nullifiers) >= BATCH,
            "address": len(self.waiting) >= BATCH,
            "nullify V1": bool(self.spent_v1),
            "address V1": True,
        }
        chosen = self.random.choice([name for name, can in ready.items() if can])
        event = {
            "append": self._append,
            "nullify": self._nullify,
            "address": self._insert,
            "nullify V1": self._nullify_v1,
            "address V1": self._insert_v1,
        }[chosen]()
        return (
            Instruction(key("registry"), (), bytes(8), 1),
            Instruction(programs.ACCOUNT_COMPRESSION, (), b"instruction", 2),
            Instruction(programs.NOOP, (), event, 3),
        )

    def _append(self) -> bytes:
        start = self.state.next_index
        self.state.append(self.queued[start : start + BATCH])
        return self._batch_event(3, STATE, start, self.state.root)

    def _nullify(self) -> bytes:
        start = self.counts["inputs"] - len(self.nullifiers)
        for index, nullifier in self.nullifiers[:BATCH]:
            self.state.set_many({index: nullifier})
        del self.nullifiers[:BATCH]
        return self._batch_event(4, STATE, start, self.state.root)

    def _insert(self) -> bytes:
        start = self.addresses.next_index
        self.addresses.insert_many(self.waiting[:BATCH])
        del self.waiting[:BATCH]
        return self._batch_event(5, ADDRESSES, start, self.addresses.root)

    def _batch_event(self, tag: int, tree: bytes, start: int, root: bytes) -> bytes:
        self.sequences[tree] += 1
        sequence = self.sequences[tree]
        capacity = programs.ROOT_CAPACITIES[TreeType.STATE_V2 if tree == STATE else TreeType.ADDRESS_V2]
        numbers = struct.pack("<QQQQQ", 0, 0, BATCH, start, start + BATCH)
        return bytes([tag]) + tree + numbers + root + struct.pack("<IQ", sequence % capacity, sequence) + b"\0"

    def _nullify_v1(self) -> bytes:
        leaf = self.spent_v1.pop(self.random.randrange(len(self.spent_v1)))
        self.state_v1.set_many({leaf.index: ZERO})
        self.sequences[STATE_V1] += 1
        return bytes([1]) + STATE_V1 + struct.pack("<IQQ", 1, leaf.index, self.sequences[STATE_V1])

    def _insert_v1(self) -> bytes:
        value = self._address()
        index = self.addresses_v1.next_index
        [done] = self.addresses_v1.insert_many([value])
        low = done.low.value + struct.pack("<Q", index) + value + struct.pack("<Q", done.low.index)
        new = value + struct.pack("<Q", done.low.next_index) + done.low.next_value + struct.pack("<Q", index)
        first = self.sequences[ADDRESSES_V1] + 1
        self.sequences[ADDRESSES_V1] += 2
        content = low + done.low_write.new + new + done.new_write.new
        return bytes([2]) + ADDRESSES_V1 + struct.pack("<I", 1) + content + struct.pack("<Q", first)


def invoke_data(outputs: list[CompressedAccount]) -> bytes:
    """Return instruction ``invoke`` of the Light system program with these outputs."""
    data = INVOKE + bytes(4) + bytes(1) + struct.pack("<I", 0) + struct.pack("<I", len(outputs))
    for account in outputs:
        data += account.owner + struct.pack("<Q", account.lamports)
        data += b"\0" if account.address is None else b"\1" + account.address
        if account.data is None:
            data += b"\0"
        else:
            content = account.data
            data += b"\1" + content.discriminator + struct.pack("<I", len(content.data)) + content.data
            data += content.data_hash
        data += b"\1"
    return data


def enter_trees(store: Store) -> None:
    """Let a store know the trees of the chain."""
    with store.write() as connection:
        add_default_tree(connection, STATE, TreeType.STATE_V2, QUEUE)
        add_default_tree(connection, ADDRESSES, TreeType.ADDRESS_V2, ADDRESSES)
        add_default_tree(connection, STATE_V1, TreeType.STATE_V1, QUEUE_V1)
        add_default_tree(connection, ADDRESSES_V1, TreeType.ADDRESS_V1, key("address queue V1"))


def rows(store: Store) -> dict[str, list[str]]:
    """Return all rows of all tables."""
    with store.read() as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        tables = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in names}  # noqa: S608
    return {name: sorted(map(repr, content)) for name, content in tables.items()}
