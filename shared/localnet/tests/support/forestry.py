"""A forester's and a user's work on one V2 state tree and one V2 address tree, with proofs from any prover."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import forester_instructions
from chains import AUTHORITY, FORESTER, USER, registered_inserter, send
from forester_instructions import Pair
from solders.compute_budget import set_compute_unit_limit
from solders.instruction import Instruction
from solders.pubkey import Pubkey

from localnet.chain import addresses
from localnet.chain.blocks import RecordedTransaction
from localnet.chain.network import Network
from localnet.programs import registry
from localnet.programs.light_system import Input, Output, invoke
from localnet.prover.simulated import prove
from shared.requests.proof_compression import compress_proof
from shared.requests.proof_wire import ProofRequest, encode_request
from shared.requests.witness_inputs import (
    SpentAccount,
    batch_address_append_request,
    batch_append_request,
    batch_update_request,
)
from shared.trees.indexed_merkle_tree import IndexedMerkleTree
from shared.trees.merkle_tree import MerkleTree

INSERT_INTO_QUEUES = bytes.fromhex("b48f9f99232ef8a3")
EPOCH = 2
"""Registered at slot 400 and active from slot 500 (shared/localnet/docs/chain.md, "Published accounts")."""
ACTIVE_SLOT = 500
BATCH = 10
STATE = Pair(addresses.STATE_TREE, addresses.OUTPUT_QUEUE)
LEAF_BYTES, NULLIFIER_BYTES = 33, 39


@dataclass(frozen=True)
class Inserted:
    """Contents that a user's transaction has inserted into queues."""

    tx_hash: bytes
    leaves: list[bytes]
    spent: list[SpentAccount]


def inserted(done: RecordedTransaction) -> Inserted:
    """Read it from the call to the account compression program.

    Source: forester/docs/reference/programs.md, "Queue insertions".
    """
    [data] = [
        call.data
        for group in done.inner_instructions
        for call in group
        if call.program == addresses.ACCOUNT_COMPRESSION and call.data.startswith(INSERT_INTO_QUEUES)
    ]
    body = data[12:]
    tx_hash, at = body[6:38], 38
    leaves = [body[at + 1 + LEAF_BYTES * i :][1:33] for i in range(body[at])]
    at += 1 + LEAF_BYTES * len(leaves)
    rows = [body[at + 1 + NULLIFIER_BYTES * i :][:NULLIFIER_BYTES] for i in range(body[at])]
    spent = [SpentAccount(row[:32], int.from_bytes(row[32:36], "little"), tx_hash) for row in rows]
    return Inserted(tx_hash, leaves, spent)


def address_insertion(values: Sequence[bytes]) -> bytes:
    """Return data of insert_into_queues for addresses of the first tree.

    Source: forester/docs/reference/programs.md, "Queue insertions".
    """
    head = bytes([1, 255, 0, 0, 0, 1]) + bytes(32) + bytes([0, 0, len(values)])
    body = head + b"".join(value + bytes(2) for value in values) + bytes(8)
    return INSERT_INTO_QUEUES + registry.u32(len(body)) + body


def simulated(request: ProofRequest) -> bytes:
    """Return a simulated proof as instructions carry it."""
    return compress_proof(prove(encode_request(request))).data


@dataclass
class Forest:
    """A network with an active forester, and copies of the trees that it works on."""

    network: Network
    prover: Callable[[ProofRequest], bytes] = simulated
    tree: MerkleTree = field(default_factory=lambda: MerkleTree(32))
    state: Pair = STATE
    batch: int = BATCH
    address_key: Pubkey = addresses.ADDRESS_TREE
    address_batch: int = BATCH
    address_tree: IndexedMerkleTree = field(default_factory=lambda: IndexedMerkleTree(2))
    queued: list[bytes] = field(default_factory=list)
    spent: list[SpentAccount] = field(default_factory=list)
    queued_addresses: list[bytes] = field(default_factory=list)

    @property
    def epoch_account(self) -> Pubkey:
        return addresses.forester_epoch(FORESTER.pubkey(), EPOCH)

    def register(self) -> None:
        """Register the forester and warp into its active phase."""
        registered = registry.register_forester(AUTHORITY.pubkey(), AUTHORITY.pubkey(), FORESTER.pubkey())
        assert send(self.network, [registered], AUTHORITY).err is None
        epoch = forester_instructions.register_forester_epoch(FORESTER.pubkey(), FORESTER.pubkey(), EPOCH)
        assert send(self.network, [epoch], FORESTER).err is None
        self.network.warp(ACTIVE_SLOT)
        final = forester_instructions.finalize_registration(FORESTER.pubkey(), FORESTER.pubkey(), EPOCH)
        assert send(self.network, [final], FORESTER).err is None

    def compress(self, count: int = BATCH, lamports: int = 1_000_000) -> list[int]:
        """Compress lamports into accounts; returns their leaf indices."""
        # Another slot has another blockhash, and so an equal transaction another signature.
        self.network.advance()
        first = self.tree.next_index + len(self.queued)
        outputs = [Output(USER.pubkey(), lamports, self.state.queue)] * count
        done = send(self.network, [invoke(USER.pubkey(), outputs=outputs, compress=count * lamports)], USER)
        assert done.err is None, done.logs
        self.queued += inserted(done).leaves
        return list(range(first, first + count))

    def spend(self, indices: Sequence[int], lamports: int = 1_000_000) -> RecordedTransaction:
        """Spend accounts that are still in the queue into one new account."""
        inputs = [Input(USER.pubkey(), lamports, self.state.tree, self.state.queue, index) for index in indices]
        output = Output(USER.pubkey(), lamports * len(indices), self.state.queue)
        done = send(self.network, [invoke(USER.pubkey(), inputs=inputs, outputs=[output])], USER)
        if done.err is None:
            seen = inserted(done)
            self.queued += seen.leaves
            self.spent += seen.spent
        return done

    def insert_addresses(self, values: Sequence[bytes]) -> None:
        """Queue addresses as a registered program would, eight at most in a transaction."""
        inserter = registered_inserter(self.network)
        for at in range(0, len(values), 8):
            part = values[at : at + 8]
            done = inserter.insert(address_insertion(part), [self.address_key])
            assert done.err is None, done.logs
        self.queued_addresses += values

    def append_instruction(self) -> Instruction:
        """Return the instruction that moves the next batch of queued accounts into the tree."""
        request = batch_append_request(self.tree, [self.queued.pop(0) for _ in range(self.batch)])
        forester = FORESTER.pubkey()
        accounts = (forester, self.epoch_account, self.state.tree, self.state.queue)
        return forester_instructions.batch_append(*accounts, self.tree.root, self.prover(request))

    def nullify_instruction(self) -> Instruction:
        """Return the instruction that nullifies the next batch of spent accounts."""
        request = batch_update_request(self.tree, [self.spent.pop(0) for _ in range(self.batch)])
        accounts = (FORESTER.pubkey(), self.epoch_account, self.state.tree)
        return forester_instructions.batch_nullify(*accounts, self.tree.root, self.prover(request))

    def address_instruction(self) -> Instruction:
        """Return the instruction that moves the next batch of queued addresses into the address tree."""
        batch = [self.queued_addresses.pop(0) for _ in range(self.address_batch)]
        request = batch_address_append_request(self.address_tree, batch)
        accounts = (FORESTER.pubkey(), self.epoch_account, self.address_key)
        return forester_instructions.batch_update_address_tree(*accounts, self.address_tree.root, self.prover(request))

    def work(self, *instructions: Instruction) -> RecordedTransaction:
        """Send work with a compute limit."""
        return send(self.network, [set_compute_unit_limit(1_400_000), *instructions], FORESTER)

    def root(self, tree: Pubkey = addresses.STATE_TREE) -> bytes:
        """Return the latest root on the chain."""
        account = self.network.account(tree)
        assert account is not None
        data = bytes(account.data)
        current, capacity = (int.from_bytes(data[at : at + 8], "little") for at in (680, 696))
        at = 704 + 32 * ((current - 1) % capacity)
        return data[at : at + 32]

    def work_counter(self) -> int:
        account = self.network.account(self.epoch_account)
        assert account is not None
        return int.from_bytes(account.data[64:72], "little")
