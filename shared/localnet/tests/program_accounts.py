"""Compressed accounts with data and V2 addresses, as a program makes and spends them (source: indexer.md 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from Crypto.Hash import keccak
from invoking_program import AUTHORITY, BUMP, PROGRAM, invoke_light_system, program
from solders.account import Account
from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey
from solders.system_program import ID as SYSTEM_PROGRAM

from localnet.chain import addresses
from localnet.chain.network import Network
from localnet.programs.registry import u16, u32, u64

WITH_READ_ONLY = bytes([86, 47, 163, 166, 21, 223, 92, 8])
LOADER = Pubkey.from_string("BPFLoader2111111111111111111111111111111111")
DISCRIMINATOR = b"account "
DATA_HASH = bytes(1) + b"\x05" * 31
SHORT_ACCOUNTS = 1
"""Mode of a call that names only the accounts it needs."""


def install(network: Network) -> None:
    """Put the program on the chain."""
    code = program()
    network.set_account(PROGRAM, Account(network.rent_exempt_minimum(len(code)), code, LOADER, executable=True))


@dataclass(frozen=True)
class Held:
    """An account of the program to be spent; its root is that of ``root_index``."""

    leaf_index: int
    root_index: int
    address: bytes | None = None


@dataclass(frozen=True)
class Derived:
    """A V2 address that the program derives from a seed of 32 bytes."""

    seed: bytes
    root_index: int = 0

    @property
    def address(self) -> bytes:
        """Keccak-256 with its first byte cleared."""
        parts = self.seed + bytes(addresses.ADDRESS_TREE) + bytes(PROGRAM)
        return b"\0" + keccak.new(digest_bits=256, data=parts + b"\xff").digest()[1:]


def _option(value: bytes | None) -> bytes:
    return b"\0" if value is None else b"\1" + value


def call(
    payer: Pubkey,
    *,
    spent: Sequence[Held] = (),
    made: Sequence[bytes | None] = (),
    new: Sequence[Derived] = (),
    proof: bytes | None = None,
) -> Instruction:
    """Spend accounts in the state tree, make accounts (known by their address, or by None) and addresses."""
    trees = [addresses.STATE_TREE, addresses.OUTPUT_QUEUE, addresses.ADDRESS_TREE]
    state, queue, address_tree = bytes([0]), bytes([1]), bytes([2])
    data = WITH_READ_ONLY + bytes([SHORT_ACCOUNTS, BUMP]) + bytes(PROGRAM) + u64(0)
    data += bytes([0, 0, 1]) + bytes(3)  # no lamports move, no CPI context, a transaction hash
    data += _option(proof) + u32(len(new))
    for one in new:
        place = bytes([1, made.index(one.address)]) if one.address in made else bytes(2)  # the account that bears it
        data += one.seed + address_tree * 2 + u16(one.root_index) + place
    data += u32(len(spent))
    for held in spent:
        data += DISCRIMINATOR + DATA_HASH + state + queue + u32(held.leaf_index) + b"\0"
        data += u16(held.root_index) + u64(0) + _option(held.address)
    data += u32(len(made))
    for address in made:
        content = _option(DISCRIMINATOR + u32(4) + b"data" + DATA_HASH)
        data += bytes(PROGRAM) + u64(0) + _option(address) + content + queue
    data += u32(0) + u32(0)  # nothing is only read
    metas = [AccountMeta(payer, True, True), AccountMeta(AUTHORITY, False, False)]
    fixed = (addresses.REGISTERED_LIGHT_SYSTEM, addresses.LIGHT_SYSTEM_CPI_AUTHORITY, addresses.ACCOUNT_COMPRESSION)
    metas += [AccountMeta(key, False, False) for key in (*fixed, SYSTEM_PROGRAM)]
    return invoke_light_system(data, metas + [AccountMeta(tree, False, True) for tree in trees])
