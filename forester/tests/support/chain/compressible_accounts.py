"""Compressible token accounts: their bytes, and how a user creates one on a localnet."""

from __future__ import annotations

import base64
import struct

from localnet_forester import Kit
from localnet_process import Localnet
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import ID as SYSTEM_PROGRAM

from forester.chain.programs.addresses import ACCOUNT_COMPRESSION, COMPRESSED_TOKEN, LIGHT_SYSTEM
from forester.chain.programs.compressed_address import compressed_address
from forester.chain.programs.compression import CONFIG, MINT_ADDRESS_TREE
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


def mint_data(mint: Pubkey, *, is_account: bool = True, last_claimed: int = 5) -> bytes:
    """Return a mint of the compressed token program without extensions."""
    head = struct.pack("<I32sQBBI32s", 1, bytes(OWNER), 0, 6, 1, 0, bytes(32))
    metadata = struct.pack("<BB32s32sB16xB", 3, is_account, bytes(mint), bytes(DELEGATE), 255, 1)
    info = struct.pack(
        *("<HBBI32s32sQI4xHHBBH", 1, 0, 3, 0, bytes(AUTHORITY), bytes(SPONSOR)),
        *(last_claimed, 2_000_000, 128, 11_000, 1, 2, 12_416),
    )
    return head + metadata + info + b"\0"


def program_data(discriminator: bytes, *, last_claimed: int = 5, state: int = 1, content: bytes = bytes(40)) -> bytes:
    """Return another program's account: its discriminator, its compression info, and its content."""
    info = struct.pack("<QIHBBHHBBH", last_claimed, 0, 1, state, 0, 128, 11_000, 1, 2, 12_416)
    return discriminator + info + content


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
    keys = (*((account, "sw"), (mint, ""), (payer, "sw"), (CONFIG, "")), *((SYSTEM_PROGRAM, ""), (RENT_SPONSOR, "w")))
    return Instruction(COMPRESSED_TOKEN, data, metas_of(*keys))


def create_associated_account(mint: Pubkey, owner: Pubkey, payer: Pubkey, epochs: int) -> tuple[Pubkey, Instruction]:
    """Create the associated token account of an owner, whose rent is prepaid for some rent epochs.

    Source: forester/docs/reference/programs.md, "Token accounts".
    """
    seeds = [bytes(owner), bytes(COMPRESSED_TOKEN), bytes(mint)]
    account, _ = Pubkey.find_program_address(seeds, COMPRESSED_TOKEN)
    data = bytes([100, 1, 3, epochs, 1]) + bytes(4) + b"\x00"
    keys = (
        (owner, ""),
        (mint, ""),
        (payer, "sw"),
        (account, "w"),
        (SYSTEM_PROGRAM, ""),
        (CONFIG, ""),
        (RENT_SPONSOR, "w"),
    )
    return account, Instruction(COMPRESSED_TOKEN, data, metas_of(*keys))


OUTPUT_QUEUE = Pubkey.from_string("oq1na8gojfdUhsfCpyjNt6h4JaDWtHf1yQj4koBWfto")


def mint_of(signer: Pubkey) -> tuple[Pubkey, int]:
    """Return the address of the mint that a signer creates, and its bump."""
    return Pubkey.find_program_address([b"compressed_mint", bytes(signer)], COMPRESSED_TOKEN)


def proof_of_new_addresses(net: Localnet, addresses: list[bytes]) -> tuple[bytes, int]:
    """Return a proof that addresses are new, and the index of its root."""
    wanted = [{"address": str(Pubkey(address)), "tree": str(MINT_ADDRESS_TREE)} for address in addresses]
    value = net.indexed("getValidityProofV2", {"hashes": [], "newAddressesWithTrees": wanted})
    points = value["compressedProof"]
    return bytes([*points["a"], *points["b"], *points["c"]]), value["addresses"][0]["rootIndex"]


def create_mint(net: Localnet, signer: Pubkey, payer: Pubkey, epochs: int) -> Instruction:
    """Create a mint as an account, whose rent is prepaid for some rent epochs.

    Source: forester/docs/reference/programs.md, "Mints".
    """
    mint, bump = mint_of(signer)
    proof, root_index = proof_of_new_addresses(net, [compressed_address(mint, MINT_ADDRESS_TREE, COMPRESSED_TOKEN)])
    data = struct.pack("<BIBHH", 103, 0, 0, root_index, 0xFFFF) + b"\x01" + bytes(12)
    data += struct.pack("<IBBI", 1, 7, epochs, 0) + b"\x01" + proof + b"\x00\x01"
    data += struct.pack("<QBBB32s32sB", 0, 6, 3, 0, bytes(mint), bytes(signer), bump)
    data += b"\x01" + bytes(payer) + bytes(2)
    keys = (
        *((LIGHT_SYSTEM, ""), (signer, "s"), (payer, "s"), (CONFIG, ""), (mint, "w"), (RENT_SPONSOR, "w")),
        *((payer, "sw"), (_cpi_authority(COMPRESSED_TOKEN), ""), *system_accounts()),
        *((OUTPUT_QUEUE, "w"), (MINT_ADDRESS_TREE, "w")),
    )
    return Instruction(COMPRESSED_TOKEN, data, metas_of(*keys))


_REGISTERED_SYSTEM, _ = Pubkey.find_program_address([bytes(LIGHT_SYSTEM)], ACCOUNT_COMPRESSION)


def _cpi_authority(program: Pubkey) -> Pubkey:
    return Pubkey.find_program_address([b"cpi_authority"], program)[0]


def system_accounts() -> tuple[tuple[Pubkey, str], ...]:
    """Return the accounts of a call of the Light system program that follow the caller's signer."""
    return (
        *((_REGISTERED_SYSTEM, ""), (_cpi_authority(LIGHT_SYSTEM), "")),
        *((ACCOUNT_COMPRESSION, ""), (SYSTEM_PROGRAM, "")),
    )


def metas_of(*keys: tuple[Pubkey, str]) -> list[AccountMeta]:
    """Return accounts of an instruction from flags: s signs, w is writable."""
    return [AccountMeta(key, is_signer="s" in flags, is_writable="w" in flags) for key, flags in keys]
