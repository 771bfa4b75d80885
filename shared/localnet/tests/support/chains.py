"""Networks for tests, and the keys in charge of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from recorded import Recorded, recorded
from solders.account import Account
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import Message
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from localnet.chain import addresses
from localnet.chain.artefacts import Artefacts, load_artefacts
from localnet.chain.blocks import RecordedTransaction
from localnet.chain.network import Network
from localnet.chain.simulated_proofs import with_simulated_keys
from localnet.chain.verifying_keys import VerifyingKey, with_verifying_keys

FORESTER = Keypair.from_seed(bytes([0x15]) * 32)
AUTHORITY = Keypair.from_seed(bytes([0x4D]) * 32)
USER = Keypair.from_seed(bytes([0x07]) * 32)
"""The keys of the recorded transactions."""


def recorded_key(name: str) -> VerifyingKey:
    facts = recorded(name)["vk"]
    return VerifyingKey(bytes.fromhex(facts["main_448"]), bytes.fromhex(facts["ic_128"]))


@cache
def artefacts_of_recordings() -> Artefacts:
    keys = {
        "batch_append_32_10": recorded_key("batch_append_tx"),
        "batch_update_32_10": recorded_key("batch_nullify_tx"),
        "batch_address_append_40_10": recorded_key("batch_update_address_tree_tx"),
    }
    return with_verifying_keys(load_artefacts(), keys).with_protocol_authority(AUTHORITY.pubkey())


@cache
def simulated_artefacts() -> Artefacts:
    return with_simulated_keys(load_artefacts()).with_protocol_authority(AUTHORITY.pubkey())


def funded(artefacts: Artefacts, **options: Any) -> Network:
    network = Network(artefacts, **options)
    for key in (FORESTER, AUTHORITY, USER):
        network.airdrop(key.pubkey(), 100 * 10**9)
    return network


def replay(network: Network, facts: Recorded) -> RecordedTransaction:
    """Execute a recorded transaction; it must succeed."""
    done = network.submit(bytes.fromhex(facts["tx_hex"]))
    assert done.err is None, done.logs
    return done


def send(network: Network, instructions: Sequence[Instruction], *signers: Keypair) -> RecordedTransaction:
    """Sign with all signers, the first one paying, and execute."""
    message = Message.new_with_blockhash(instructions, signers[0].pubkey(), network.slots.hash_of(network.slot))
    return network.submit(bytes(VersionedTransaction(message, signers)))


@dataclass(frozen=True)
class Inserter:
    """A key that may write into queues directly (forester/docs/reference/programs.md, "Queue insertions")."""

    network: Network
    key: Keypair
    program_account: Pubkey

    def insert(self, data: bytes, accounts: Sequence[Pubkey]) -> RecordedTransaction:
        metas = [AccountMeta(self.key.pubkey(), True, False), AccountMeta(self.program_account, False, False)]
        metas += [AccountMeta(account, False, True) for account in accounts]
        return send(self.network, [Instruction(addresses.ACCOUNT_COMPRESSION, data, metas)], USER, self.key)


def registered_inserter(network: Network) -> Inserter:
    """Register a program whose signer is an ordinary key."""
    key = Keypair.from_seed(b"inserter".ljust(32, b"."))
    program_account = Keypair.from_seed(b"registered".ljust(32, b".")).pubkey()
    model = network.account(addresses.REGISTERED_REGISTRY)
    assert model is not None
    data = bytes(model.data[:72]) + bytes(key.pubkey())
    network.set_account(program_account, Account(model.lamports, data, model.owner))
    return Inserter(network, key, program_account)
