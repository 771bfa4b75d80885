"""Users' traffic: transactions as wallets send them, for a forester and an indexer to work on."""

import contextlib
import hashlib
import itertools
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

from solders.compute_budget import set_compute_unit_limit
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import Message
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from localnet.chain import addresses
from localnet.chain.blocks import JsonError, RecordedTransaction
from localnet.chain.execution import TransactionRefused
from localnet.chain.network import Network
from localnet.development import LAMPORTS_EACH, USER
from localnet.indexer.decoding.instructions import decode_queue_insertion
from localnet.indexer.programs import INSERT_INTO_QUEUES
from localnet.programs.compressed_token import create_mint, mint_address
from localnet.programs.light_system import Input, NewAddress, Output, invoke
from localnet.users.proofs import NoProof, Proofs

LAMPORTS = 1_000_000
"""In each account of this traffic, unless it gathers spent ones."""
PER_TRANSACTION = 10
COMPUTE_UNITS = 600_000


class TrafficStopped(Exception):
    """A program refused a transaction of this traffic, for example because a queue is full; or there is no proof."""

    def __init__(self, done: int, err: JsonError) -> None:
        super().__init__(f"after {done}: {err}")
        self.done = done
        self.err = err


class TrafficImpossible(ValueError):
    """The traffic needs accounts that do not exist."""


@dataclass(frozen=True)
class Unspent:
    """An account that this traffic may spend."""

    leaf_index: int
    lamports: int
    leaf: bytes


@dataclass
class Traffic:
    """Sender of one user's transactions in the open slot, with what the user may spend."""

    network: Network
    proofs: Proofs
    queued: list[Unspent] = field(default_factory=list)
    v1: list[Unspent] = field(default_factory=list)
    fork: int = 0
    serial: Iterator[int] = field(default_factory=itertools.count)

    async def run(self, kind: str, count: int) -> int:
        """Make ``count`` things of a kind in ``KINDS``; returns how many.

        TrafficStopped if a program refuses, TrafficImpossible if there is nothing to do it with.
        """
        if self.fork != self.network.fork:
            self.fork = self.network.fork
            self.queued, self.v1 = [], []
        step = PER_TRANSACTION if kind in ("compress", "spend", "v1_compress") else 1
        done = 0
        while done < count:
            part = min(step, count - done)
            try:
                result = await KINDS[kind](self, part)
            except TransactionRefused as refused:
                raise TrafficStopped(done, refused.err) from refused
            except NoProof as missing:
                raise TrafficStopped(done, str(missing)) from missing
            if result.err is not None:
                raise TrafficStopped(done, result.err)
            done += part
        return done

    async def compress(self, count: int) -> RecordedTransaction:
        """Create accounts in the V2 output queue."""
        return self._compress(count, addresses.OUTPUT_QUEUE, 280, self.queued)

    async def v1_compress(self, count: int) -> RecordedTransaction:
        """Create accounts in the V1 state tree."""
        return self._compress(count, addresses.STATE_TREE_V1, 240, self.v1)

    def _compress(self, count: int, tree: Pubkey, next_index_at: int, unspent: list[Unspent]) -> RecordedTransaction:
        first = self._number(tree, next_index_at)
        outputs = [Output(USER.pubkey(), LAMPORTS, tree)] * count
        done = self._send([invoke(USER.pubkey(), outputs=outputs, compress=count * LAMPORTS)])
        if done.err is None:
            unspent += [Unspent(first + i, LAMPORTS, leaf) for i, leaf in enumerate(leaves_of(done))]
        return done

    async def spend(self, count: int) -> RecordedTransaction:
        """Spend the newest accounts that are still in the V2 queue into one."""
        with _unless_spent(self.queued, self._take(self.queued, count)) as spent:
            inputs = [
                Input(USER.pubkey(), entry.lamports, addresses.STATE_TREE, addresses.OUTPUT_QUEUE, entry.leaf_index)
                for entry in spent
            ]
            total = sum(entry.lamports for entry in spent)
            index = self._number(addresses.OUTPUT_QUEUE, 280)
            output = Output(USER.pubkey(), total, addresses.OUTPUT_QUEUE)
            done = self._send([invoke(USER.pubkey(), inputs=inputs, outputs=[output])])
            if done.err is None:
                spent.clear()
                self.queued.append(Unspent(index, total, leaves_of(done)[0]))
        return done

    async def v1_spend(self, count: int) -> RecordedTransaction:
        """Spend one V1 account, which queues its nullifier; the lamports go back to the V1 tree."""
        with _unless_spent(self.v1, self._take(self.v1, count)) as taken:
            [spent] = taken
            shown = await self.proofs.of_leaf(spent.leaf)
            tree, queue = addresses.STATE_TREE_V1, addresses.NULLIFIER_QUEUE_V1
            entry = Input(USER.pubkey(), spent.lamports, tree, queue, spent.leaf_index, shown.root_index)
            output = Output(USER.pubkey(), spent.lamports, tree)
            index = self._number(tree, 240)
            done = self._send([invoke(USER.pubkey(), inputs=[entry], outputs=[output], proof=shown.proof)])
            if done.err is None:
                taken.clear()
                self.v1.insert(0, Unspent(index, spent.lamports, leaves_of(done)[0]))
        return done

    async def address(self, _count: int) -> RecordedTransaction:
        """Create one V2 address: that of a compressed mint."""
        signer = Keypair.from_seed(hashlib.sha256(f"localnet mint {self._name()}".encode()).digest())
        shown = await self.proofs.of_absence(mint_address(signer.pubkey()))
        return self._send([create_mint(USER.pubkey(), signer.pubkey(), shown.root_index, shown.proof)], signer)

    async def v1_address(self, _count: int) -> RecordedTransaction:
        """Create one V1 address, which nothing uses."""
        seed = hashlib.sha256(f"localnet address {self._name()}".encode()).digest()
        tree, queue = addresses.ADDRESS_TREE_V1, addresses.ADDRESS_QUEUE_V1
        shown = await self.proofs.of_absence(NewAddress(seed, tree, queue, 0).address, tree)
        made = NewAddress(seed, tree, queue, shown.root_index)
        return self._send([invoke(USER.pubkey(), new_addresses=[made], proof=shown.proof)])

    def _name(self) -> str:
        """Return a new name each time, on every fork."""
        return f"{self.network.slot} {self.network.transaction_count} {next(self.serial)}"

    def _take(self, unspent: list[Unspent], count: int) -> list[Unspent]:
        if len(unspent) < count:
            raise TrafficImpossible(f"{count} accounts are to be spent and {len(unspent)} are there; make some first")
        taken = unspent[-count:]
        del unspent[-count:]
        return taken

    def _bytes(self, key: Pubkey, at: int, count: int) -> bytes:
        account = self.network.account(key)
        return bytes(account.data[at : at + count]) if account else bytes(count)

    def _number(self, key: Pubkey, at: int) -> int:
        return int.from_bytes(self._bytes(key, at, 8), "little")

    def _send(self, instructions: list[Instruction], *signers: Keypair) -> RecordedTransaction:
        # Limits that differ make equal transactions of one slot distinct.
        units = COMPUTE_UNITS + next(self.serial) % 100_000
        account = self.network.account(USER.pubkey())
        if account is None or account.lamports < LAMPORTS_EACH // 2:
            self.network.airdrop(USER.pubkey(), LAMPORTS_EACH)
        blockhash = self.network.slots.hash_of(self.network.slot)
        everything = [set_compute_unit_limit(units), *instructions]
        message = Message.new_with_blockhash(everything, USER.pubkey(), blockhash)
        return self.network.submit(bytes(VersionedTransaction(message, [USER, *signers])))


@contextlib.contextmanager
def _unless_spent(unspent: list[Unspent], taken: list[Unspent]) -> Iterator[list[Unspent]]:
    """Put back what the block leaves in ``taken``: a refused transaction and a missing proof spend nothing."""
    try:
        yield taken
    finally:
        unspent += taken


def leaves_of(done: RecordedTransaction) -> list[bytes]:
    """Return the leaves that a user's transaction inserted into queues or trees."""
    for group in done.inner_instructions:
        for call in group:
            if call.program == addresses.ACCOUNT_COMPRESSION and call.data.startswith(INSERT_INTO_QUEUES):
                return [leaf.hash for leaf in decode_queue_insertion(call.data).leaves]
    return []


KINDS: dict[str, Callable[[Traffic, int], Awaitable[RecordedTransaction]]] = {
    "compress": Traffic.compress,
    "spend": Traffic.spend,
    "addresses": Traffic.address,
    "v1_compress": Traffic.v1_compress,
    "v1_spend": Traffic.v1_spend,
    "v1_addresses": Traffic.v1_address,
}
