"""Compression info: the part of token accounts and mints that decides their rent.

Source: forester/docs/reference/programs.md, "Compression info".
"""

import struct
from dataclasses import dataclass

from solders.pubkey import Pubkey

from forester.chain import bounds
from forester.compressible.rent import RentState

_INFO = struct.Struct("<2xBx4x32s32sQI4xHHB3x")
INFO_BYTES = _INFO.size


@dataclass(frozen=True, slots=True)
class CompressionInfo:
    """Compression info of an account. ``to_itself`` makes the account the owner of its compressed account."""

    to_itself: bool
    authority: Pubkey
    rent_sponsor: Pubkey
    rent: RentState


def decode_compression_info(data: bytes, offset: int, *, account: str, size: int, lamports: int) -> CompressionInfo:
    """Decode the info at an offset of a slice that contains it, for an account of ``size`` bytes.

    Raises MalformedAccount, which names ``account``, for values that no program writes.
    """
    to_itself, authority, sponsor, claimed, exemption, base_rent, cost, per_byte = _INFO.unpack_from(data, offset)
    bounds.check(account, "last_claimed_slot", claimed, bounds.LARGEST_COUNT)
    bounds.check(account, "size", size, bounds.LARGEST_ACCOUNT_BYTES)
    rent = RentState(size, lamports, exemption, claimed, base_rent, cost, per_byte)
    return CompressionInfo(bool(to_itself), Pubkey(authority), Pubkey(sponsor), rent)
