"""The instruction of the registry program that admits a forester, as the protocol authority sends it.

Source: forester/docs/reference/programs.md, "Administration".
"""

from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey
from solders.system_program import ID as SYSTEM_PROGRAM

from localnet.chain import addresses

BUMP = bytes([addresses.REGISTRY_CPI_AUTHORITY_BUMP])
REGISTER_FORESTER = bytes.fromhex("3e2ff06754c8e249")


def u16(value: int) -> bytes:
    """Return the little-endian bytes."""
    return value.to_bytes(2, "little")


def u32(value: int) -> bytes:
    """Return the little-endian bytes."""
    return value.to_bytes(4, "little")


def u64(value: int) -> bytes:
    """Return the little-endian bytes."""
    return value.to_bytes(8, "little")


def register_forester(payer: Pubkey, authority: Pubkey, forester: Pubkey, weight: int = 1) -> Instruction:
    """Return the instruction that admits a forester; its key is both derivation key and first authority."""
    metas = [
        AccountMeta(payer, True, True),
        AccountMeta(authority, True, False),
        AccountMeta(addresses.PROTOCOL_CONFIG, False, False),
        AccountMeta(addresses.forester(forester), False, True),
        AccountMeta(SYSTEM_PROGRAM, False, False),
    ]
    data = REGISTER_FORESTER + BUMP + bytes(forester) + u64(0) + b"\x01" + u64(weight)
    return Instruction(addresses.REGISTRY, data, metas)
