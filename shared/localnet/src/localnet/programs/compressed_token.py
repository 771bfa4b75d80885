"""An instruction of the compressed token program that creates one V2 address: a new compressed mint.

Source: forester/docs/reference/programs.md, "User transactions".
"""

from Crypto.Hash import keccak
from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey
from solders.system_program import ID as SYSTEM_PROGRAM

from localnet.chain import addresses
from localnet.programs.registry import u16, u32, u64

MINT_ACTION = 103
MINT_VERSION = 3
DECIMALS = 6


def _mint(signer: Pubkey) -> tuple[Pubkey, int]:
    return Pubkey.find_program_address([b"compressed_mint", bytes(signer)], addresses.COMPRESSED_TOKEN)


def mint_address(signer: Pubkey) -> bytes:
    """Return the 32-byte address that ``create_mint`` derives for a signer: Keccak-256 with its first byte cleared."""
    parts = (_mint(signer)[0], addresses.ADDRESS_TREE, addresses.COMPRESSED_TOKEN)
    digest = keccak.new(digest_bits=256, data=b"".join(map(bytes, parts)) + b"\xff").digest()
    return b"\0" + digest[1:]


def create_mint(payer: Pubkey, signer: Pubkey, root_index: int, proof: bytes) -> Instruction:
    """Return the instruction that creates a mint. ``proof`` shows that its address is absent under that root."""
    mint, bump = _mint(signer)
    data = bytes([MINT_ACTION]) + u32(0) + b"\x00" + u16(root_index) + u16(0)
    data += b"\x01" + bytes(4) + bytes(8) + u32(0) + b"\x01" + proof + b"\x00"
    data += b"\x01" + u64(0) + bytes([DECIMALS, MINT_VERSION, 0]) + bytes(mint) + bytes(signer) + bytes([bump])
    data += b"\x01" + bytes(payer) + b"\x00" + b"\x00"
    metas = [
        AccountMeta(addresses.LIGHT_SYSTEM, False, False),
        AccountMeta(signer, True, False),
        AccountMeta(payer, True, False),
        AccountMeta(payer, True, True),
        AccountMeta(addresses.TOKEN_CPI_AUTHORITY, False, False),
        AccountMeta(addresses.REGISTERED_LIGHT_SYSTEM, False, False),
        AccountMeta(addresses.LIGHT_SYSTEM_CPI_AUTHORITY, False, False),
        AccountMeta(addresses.ACCOUNT_COMPRESSION, False, False),
        AccountMeta(SYSTEM_PROGRAM, False, False),
        AccountMeta(addresses.OUTPUT_QUEUE, False, True),
        AccountMeta(addresses.ADDRESS_TREE, False, True),
    ]
    return Instruction(addresses.COMPRESSED_TOKEN, data, metas)
