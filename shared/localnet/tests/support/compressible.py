"""Compressible token accounts and what a forester does with them.

Source: forester/docs/reference/programs.md, "Compressible accounts".
"""

from __future__ import annotations

from chains import FORESTER
from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey
from solders.system_program import ID as SYSTEM_PROGRAM

from localnet.chain import addresses
from localnet.programs.registry import u32

CONFIG = Pubkey.from_string("ACXg8a7VaqecBWrSbdu73W4Pg9gsqXJ3EXAqkHyhvVXg")
RENT_SPONSOR = Pubkey.from_string("r18WwUxfG8kQ69bQPAB2jV6zGNKy3GosFGctjQoV4ti")
COMPRESSION_AUTHORITY = Pubkey.from_string("4digEm3af65wVp8iA3UAQJrKXNnXZDKZv3m3vQWmMDR9")
CREATE_ACCOUNT = 18
CLAIM = bytes.fromhex("3ec6d6c1d59f6cd2")
COMPRESS_AND_CLOSE = bytes.fromhex("605e8712792ad575")
ACCOUNT_VERSION = 3


def _metas(*rows: tuple[Pubkey, str]) -> list[AccountMeta]:
    return [AccountMeta(key, "s" in flags, "w" in flags) for key, flags in rows]


def create_account(account: Pubkey, mint: Pubkey, owner: Pubkey, payer: Pubkey, epochs: int) -> Instruction:
    """Return a token account whose rent is paid for some rent epochs."""
    data = bytes([CREATE_ACCOUNT]) + bytes(owner) + bytes([1, ACCOUNT_VERSION, epochs, 0]) + u32(0) + b"\x00"
    metas = _metas(
        *((account, "sw"), (mint, ""), (payer, "sw"), (CONFIG, "")),
        *((SYSTEM_PROGRAM, ""), (RENT_SPONSOR, "w")),
    )
    return Instruction(addresses.COMPRESSED_TOKEN, data, metas)


def claim(epoch_account: Pubkey, *accounts: Pubkey) -> Instruction:
    """Return the instruction that pays due rent to the sponsor."""
    metas = _metas(
        *((FORESTER.pubkey(), "sw"), (epoch_account, "w"), (RENT_SPONSOR, "w"), (COMPRESSION_AUTHORITY, "")),
        *((CONFIG, ""), (addresses.COMPRESSED_TOKEN, "")),
        *((account, "w") for account in accounts),
    )
    return Instruction(addresses.REGISTRY, CLAIM, metas)


def compress_and_close(epoch_account: Pubkey, account: Pubkey, mint: Pubkey, owner: Pubkey) -> Instruction:
    """Return the instruction that compresses an account whose rent has run out; the forester receives the incentive."""
    packed = [
        *((addresses.OUTPUT_QUEUE, "w"), (account, "w"), (mint, ""), (owner, ""), (RENT_SPONSOR, "w")),
        *((FORESTER.pubkey(), "w"), (COMPRESSION_AUTHORITY, "w")),
    ]
    source, mint_at, owner_at, sponsor, destination, authority = range(1, 7)
    records = bytes([source, mint_at, owner_at, sponsor, 0])
    data = COMPRESS_AND_CLOSE + bytes([authority, destination]) + u32(1) + records
    metas = _metas(
        *((FORESTER.pubkey(), "sw"), (epoch_account, "w"), (COMPRESSION_AUTHORITY, "w"), (CONFIG, "")),
        *((addresses.COMPRESSED_TOKEN, ""), (addresses.TOKEN_CPI_AUTHORITY, ""), (addresses.LIGHT_SYSTEM, "")),
        *((addresses.REGISTERED_LIGHT_SYSTEM, ""), (addresses.LIGHT_SYSTEM_CPI_AUTHORITY, "")),
        *((addresses.ACCOUNT_COMPRESSION, ""), (SYSTEM_PROGRAM, "")),
        *packed,
    )
    return Instruction(addresses.REGISTRY, data, metas)
