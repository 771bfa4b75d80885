"""Compressed accounts with data and V2 addresses, as a program makes and spends them.

Source: forester/docs/reference/indexer.md, "Public events".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

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
WITH_ACCOUNT_INFO = bytes([228, 34, 128, 84, 47, 139, 86, 240])
CPI_CONTEXT = Pubkey.from_string("cpi15BoVPKgEPw5o8wc2T816GE7b378nMXnhH3Xbq4y")
"""That of the state tree."""
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


class Context(Enum):
    """Use of the CPI context, which gathers several calls into one."""

    NONE = 0
    FIRST_WRITE = 1
    EXECUTE = 2


def _header(context: Context) -> bytes:
    uses_context, writes = context is not Context.NONE, context is Context.FIRST_WRITE
    # No lamports move; a transaction hash is computed.
    return bytes([SHORT_ACCOUNTS, BUMP]) + bytes(PROGRAM) + u64(0) + bytes([0, uses_context, 1, 0, writes, 0])


def _metas(payer: Pubkey, context: Context, trees: Sequence[Pubkey]) -> list[AccountMeta]:
    metas = [AccountMeta(payer, True, True), AccountMeta(AUTHORITY, False, False)]
    if context is not Context.FIRST_WRITE:
        programs = (addresses.LIGHT_SYSTEM_CPI_AUTHORITY, addresses.ACCOUNT_COMPRESSION, SYSTEM_PROGRAM)
        metas += [AccountMeta(key, False, False) for key in (addresses.REGISTERED_LIGHT_SYSTEM, *programs)]
    written = [CPI_CONTEXT, *trees] if context is not Context.NONE else list(trees)
    return metas + [AccountMeta(key, False, True) for key in written]


def _output(address: bytes | None, queue: bytes) -> bytes:
    content = _option(DISCRIMINATOR + u32(4) + b"data" + DATA_HASH)
    return bytes(PROGRAM) + u64(0) + _option(address) + content + queue


def call(
    payer: Pubkey,
    *,
    spent: Sequence[Held] = (),
    made: Sequence[bytes | None] = (),
    new: Sequence[Derived] = (),
    proof: bytes | None = None,
    context: Context = Context.NONE,
) -> Instruction:
    """Spend accounts in the state tree, make accounts (known by their address, or by None) and addresses."""
    trees = [addresses.STATE_TREE, addresses.OUTPUT_QUEUE, addresses.ADDRESS_TREE]
    state, queue, address_tree = bytes([0]), bytes([1]), bytes([2])
    data = WITH_READ_ONLY + _header(context)
    data += _option(proof) + u32(len(new))
    for one in new:
        place = bytes([1, made.index(one.address)]) if one.address in made else bytes(2)  # the account that bears it
        data += one.seed + address_tree * 2 + u16(one.root_index) + place
    data += u32(len(spent))
    for held in spent:
        data += DISCRIMINATOR + DATA_HASH + state + queue + u32(held.leaf_index) + b"\0"
        data += u16(held.root_index) + u64(0) + _option(held.address)
    data += u32(len(made))
    data += b"".join(_output(address, queue) for address in made)
    data += u32(0) + u32(0)  # nothing is only read
    return invoke_light_system(data, _metas(payer, context, trees))


def call_with_account_info(payer: Pubkey, made: int) -> Instruction:
    """Make accounts by the instruction that names an account's former and new content."""
    output = DISCRIMINATOR + DATA_HASH + bytes([0]) + u64(0) + u32(4) + b"data"
    data = WITH_ACCOUNT_INFO + _header(Context.NONE) + _option(None) + u32(0)
    data += u32(made) + (_option(None) + _option(None) + _option(output)) * made + u32(0) + u32(0)
    return invoke_light_system(data, _metas(payer, Context.NONE, [addresses.OUTPUT_QUEUE]))
