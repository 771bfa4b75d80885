"""Token accounts of the compressed token program that pay rent.

Source: forester/docs/reference/programs.md, "Token accounts" and "Compressible accounts".
"""

import struct
from dataclasses import dataclass

from solders.pubkey import Pubkey

from forester.chain import bounds
from forester.chain.rpc_client import Account
from forester.compressible.rent import RentState

RENT_OFFSET = 165
"""Offset of the account type, with which the slice begins that ``decode_rent`` needs."""

TOKEN_ACCOUNT_TYPE = 2

_TOKEN = struct.Struct("<32s32s8xI32s")
_EXTENSION = struct.Struct("<BBIB6xB5x32s32sQI4xHHB3x")
RENT_BYTES = _EXTENSION.size
"""Length of the slice that ``decode_rent`` needs."""

_PRESENT = 1
_COMPRESSIBLE_TAG = 32
_ACCOUNT = "compressible token account"


@dataclass(frozen=True, slots=True)
class TokenAccount:
    """A compressible token account.

    ``compressed_owner`` owns the compressed account: the owner, or the account itself if its extension has that flag.
    """

    address: Pubkey
    mint: Pubkey
    compressed_owner: Pubkey
    delegate: Pubkey | None
    compression_authority: Pubkey
    rent_sponsor: Pubkey
    rent: RentState


def decode_rent(data: bytes, size: int, lamports: int) -> RentState | None:
    """Return the rent of an account of ``size`` bytes from its slice at RENT_OFFSET; None if it pays none.

    Raises MalformedAccount for values that no program writes.
    """
    extension = _extension(data)
    if extension is None:
        return None
    *_, claimed, exemption, base_rent, compression_cost, lamports_per_byte = extension
    bounds.check(_ACCOUNT, "last_claimed_slot", claimed, bounds.LARGEST_COUNT)
    bounds.check(_ACCOUNT, "size", size, bounds.LARGEST_ACCOUNT_BYTES)
    return RentState(size, lamports, exemption, claimed, base_rent, compression_cost, lamports_per_byte)


def decode_token_account(account: Account) -> TokenAccount | None:
    """Return the token account in an account; None if it is not one that pays rent. Raises MalformedAccount."""
    tail = account.data[RENT_OFFSET:]
    rent, extension = decode_rent(tail, len(account.data), account.lamports), _extension(tail)
    if rent is None or extension is None:
        return None
    to_itself, authority, sponsor, *_ = extension
    mint, owner, has_delegate, delegate = _TOKEN.unpack_from(account.data)
    return TokenAccount(
        address=account.address,
        mint=Pubkey(mint),
        compressed_owner=account.address if to_itself else Pubkey(owner),
        delegate=Pubkey(delegate) if has_delegate else None,
        compression_authority=Pubkey(authority),
        rent_sponsor=Pubkey(sponsor),
        rent=rent,
    )


def _extension(data: bytes) -> tuple[int, bytes, bytes, int, int, int, int, int] | None:
    """Return the fields of the compressible extension, which comes first; None if there is none."""
    if len(data) < RENT_BYTES:
        return None
    kind, option, extensions, tag, *fields = _EXTENSION.unpack_from(data)
    if (kind, option, tag) != (TOKEN_ACCOUNT_TYPE, _PRESENT, _COMPRESSIBLE_TAG) or not extensions:
        return None
    to_itself, authority, sponsor, claimed, exemption, base_rent, cost, per_byte = fields
    return to_itself, authority, sponsor, claimed, exemption, base_rent, cost, per_byte
