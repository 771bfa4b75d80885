"""Mints of the compressed token program, which pay rent while they are accounts.

Source: forester/docs/reference/programs.md, "Mints".
"""

import struct
from dataclasses import dataclass

from solders.pubkey import Pubkey

from forester.chain.programs.addresses import COMPRESSED_TOKEN
from forester.chain.programs.compressed_address import compressed_address
from forester.chain.programs.compression import MINT_ADDRESS_TREE
from forester.chain.rpc_client import Account
from forester.compressible.compression_info import INFO_BYTES, CompressionInfo, decode_compression_info
from forester.compressible.rent import RentState
from forester.journal.compressible import MINT

RENT_OFFSET = 83
"""Offset of the flag of mints that are accounts, with which the slice begins that decides rent."""

TYPE_OFFSET = 165
MINT_TYPE = 1
ADDRESS_OFFSET = 84

_HEAD = struct.Struct("<B32s49xB")
RENT_BYTES = _HEAD.size + INFO_BYTES
_ACCOUNT = "compressible mint"


@dataclass(frozen=True, slots=True)
class MintAccount:
    """A mint that is an account, and the address of its compressed account."""

    address: Pubkey
    compressed_address: bytes
    compression_authority: Pubkey
    rent_sponsor: Pubkey
    rent: RentState
    kind: int = MINT


def decode_mint_rent(data: bytes, size: int, lamports: int) -> tuple[bytes, CompressionInfo] | None:
    """Return the address that a mint has in its data, and its info, from its slice at RENT_OFFSET.

    None if it is no mint or only a compressed one. Raises MalformedAccount for values that no program writes.
    """
    if len(data) < RENT_BYTES:
        return None
    is_account, mint, kind = _HEAD.unpack_from(data)
    if kind != MINT_TYPE or not is_account:
        return None
    return mint, decode_compression_info(data, _HEAD.size, account=_ACCOUNT, size=size, lamports=lamports)


def decode_mint_account(account: Account) -> MintAccount | None:
    """Return the mint in an account; None if it is not one that pays rent. Raises MalformedAccount."""
    found = decode_mint_rent(account.data[RENT_OFFSET:], len(account.data), account.lamports)
    if found is None or found[0] != bytes(account.address):
        return None
    _, info = found
    return MintAccount(
        address=account.address,
        compressed_address=compressed_address(account.address, MINT_ADDRESS_TREE, COMPRESSED_TOKEN),
        compression_authority=info.authority,
        rent_sponsor=info.rent_sponsor,
        rent=info.rent,
    )
