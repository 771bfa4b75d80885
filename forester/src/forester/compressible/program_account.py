"""Accounts of other programs that pay rent, and the configuration of these programs.

Source: forester/docs/reference/programs.md, "Accounts of other programs".
"""

import struct
from dataclasses import dataclass

from solders.pubkey import Pubkey

from forester.chain import bounds
from forester.chain.programs.compression import CompressibleProgram
from forester.chain.rpc_client import Account
from forester.compressible.rent import RentState, rent_exemption
from forester.errors import MalformedAccount

DISCRIMINATOR_BYTES = 8
CLAIMED_OFFSET = DISCRIMINATOR_BYTES
"""Offset of the last claimed slot, whose lowest byte differs between accounts."""

_INFO = struct.Struct("<Q6xBxHHB3x")
RENT_BYTES = DISCRIMINATOR_BYTES + _INFO.size
_COMPRESSED = 2
_ACCOUNT = "compressible program account"

_CONFIG_SEED = b"compressible_config"
_CONFIG_DISCRIMINATOR = b"LightCfg"
_CONFIG = struct.Struct("<8sB4x32x32s32s8x3xI32s")
_CONFIG_VERSION = 1


@dataclass(frozen=True, slots=True)
class ProgramAccount:
    """An account of a program that pays rent."""

    address: Pubkey
    kind: int
    rent: RentState


@dataclass(frozen=True, slots=True)
class ProgramConfig(CompressibleProgram):
    """Configuration of a program's compressible accounts; ``address_tree`` is the tree of their addresses."""

    address_tree: Pubkey


def decode_program_rent(data: bytes, size: int, lamports: int, per_byte: int) -> RentState | None:
    """Return the rent of an account from its first bytes; None if it has none or is compressed already.

    ``per_byte`` is the cluster's rate for rent exemption, which these accounts do not record. Raises MalformedAccount
    for values that no program writes.
    """
    if len(data) < RENT_BYTES:
        return None
    claimed, state, base_rent, cost, lamports_per_byte = _INFO.unpack_from(data, DISCRIMINATOR_BYTES)
    if state == _COMPRESSED:
        return None
    bounds.check(_ACCOUNT, "last_claimed_slot", claimed, bounds.LARGEST_COUNT)
    bounds.check(_ACCOUNT, "size", size, bounds.LARGEST_ACCOUNT_BYTES)
    return RentState(size, lamports, rent_exemption(size, per_byte), claimed, base_rent, cost, lamports_per_byte)


def config_address(program: Pubkey) -> Pubkey:
    """Return the address of a program's configuration."""
    return Pubkey.find_program_address([_CONFIG_SEED, (0).to_bytes(2, "little")], program)[0]


def decode_program_config(program: Pubkey, account: Account) -> ProgramConfig:
    """Decode the configuration of a program. Raises MalformedAccount."""
    wanted = "expected the configuration of a Light program; correct --light-pda-program"
    if account.owner != program or len(account.data) < _CONFIG.size:
        raise MalformedAccount(f"{account.address} is not the configuration of {program}: {wanted}")
    kind, version, sponsor, authority, trees, tree = _CONFIG.unpack_from(account.data)
    if (kind, version, trees) != (_CONFIG_DISCRIMINATOR, _CONFIG_VERSION, 1):
        raise MalformedAccount(f"configuration {account.address} of {program} has version {version}: {wanted}")
    return ProgramConfig(program, account.address, Pubkey(sponsor), Pubkey(authority), Pubkey(tree))
