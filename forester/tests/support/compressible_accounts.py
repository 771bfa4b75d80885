"""Compressible token accounts: their bytes, and how a user creates one on a localnet."""

from __future__ import annotations

import base64
import struct

from localnet_forester import Kit
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import ID as SYSTEM_PROGRAM

from forester.chain.programs.addresses import COMPRESSED_TOKEN
from forester.chain.programs.compression import CONFIG
from forester.compressible.token_account import RENT_OFFSET

MINT, OWNER, DELEGATE, AUTHORITY, SPONSOR = (Pubkey(bytes([number]) * 32) for number in range(2, 7))
RENT_SPONSOR = Pubkey.from_string("r18WwUxfG8kQ69bQPAB2jV6zGNKy3GosFGctjQoV4ti")
SPL_TOKEN = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"


def account_data(*, delegated: bool = False, to_itself: bool = False, last_claimed: int = 5) -> bytes:
    """Return a token account of MINT and OWNER with the compressible extension."""
    delegate = bytes(DELEGATE) if delegated else bytes(32)
    token = struct.pack("<32s32sQI32sB", bytes(MINT), bytes(OWNER), 9, delegated, delegate, 1)
    extension = struct.pack(
        *("<BBIB6xB5x32s32sQI4xHHBBH", 2, 1, 1, 32, to_itself, bytes(AUTHORITY), bytes(SPONSOR)),
        *(last_claimed, 2_000_000, 128, 11_000, 1, 2, 12_416),
    )
    return token.ljust(RENT_OFFSET, b"\0") + extension


def set_mint(kit: Kit) -> Pubkey:
    """Put an initialised SPL mint on the localnet."""
    mint = Keypair.from_seed(b"a mint".ljust(32, b".")).pubkey()
    data = base64.b64encode(bytes(44) + bytes([6, 1]) + bytes(36)).decode()
    kit.net.call("localnet_setAccount", str(mint), {"lamports": 10**9, "data": data, "owner": SPL_TOKEN})
    return mint


def create_account(account: Pubkey, mint: Pubkey, owner: Pubkey, payer: Pubkey, epochs: int) -> Instruction:
    """Create a token account whose rent is prepaid for some rent epochs.

    Source: forester/docs/reference/programs.md, "Token accounts".
    """
    data = bytes([18]) + bytes(owner) + bytes([1, 3, epochs, 0]) + bytes(4) + b"\x00"
    metas = [
        AccountMeta(key, is_signer="s" in flags, is_writable="w" in flags)
        for key, flags in (
            *((account, "sw"), (mint, ""), (payer, "sw"), (CONFIG, "")),
            *((SYSTEM_PROGRAM, ""), (RENT_SPONSOR, "w")),
        )
    ]
    return Instruction(COMPRESSED_TOKEN, data, metas)
