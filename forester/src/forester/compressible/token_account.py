"""Token accounts of the compressed token program that pay rent.

Source: forester/docs/reference/programs.md, "Token accounts" and "Compressible accounts".
"""

import struct
from dataclasses import dataclass

from solders.pubkey import Pubkey

from forester.chain.programs.compression import ClosedAccount
from forester.chain.rpc_client import Account
from forester.compressible.compression_info import INFO_BYTES, CompressionInfo, decode_compression_info
from forester.compressible.rent import RentState
from forester.journal.compressible import ASSOCIATED_TOKEN, TOKEN

RENT_OFFSET = 165
"""Offset of the account type, with which the slice begins that decides rent."""

TOKEN_ACCOUNT_TYPE = 2
OWNER_OFFSET = 32

_TOKEN = struct.Struct("<32s32s8xI32s")
_EXTENSION = struct.Struct("<BBIB2xBB")
RENT_BYTES = _EXTENSION.size + INFO_BYTES
"""Length of the slice that decides rent."""

_PRESENT = 1
_COMPRESSIBLE_TAG = 32
_STATE_OFFSET, _FROZEN = 108, 2
_ACCOUNT = "compressible token account"


@dataclass(frozen=True, slots=True)
class TokenAccount(ClosedAccount):
    """A compressible token account.

    ``is_extended`` says that the compressed account has an extension: the programs accept only transactions in which
    all or none of the accounts have one.
    """

    compression_authority: Pubkey
    rent: RentState
    kind: int
    is_extended: bool = False


def decode_token_rent(data: bytes, size: int, lamports: int) -> tuple[int, CompressionInfo] | None:
    """Return the kind of an account, and its info, from its slice at RENT_OFFSET.

    None if it pays no rent. Raises MalformedAccount for values that no program writes.
    """
    if len(data) < RENT_BYTES:
        return None
    kind, option, extensions, tag, _, associated = _EXTENSION.unpack_from(data)
    if (kind, option, tag) != (TOKEN_ACCOUNT_TYPE, _PRESENT, _COMPRESSIBLE_TAG) or not extensions:
        return None
    info = decode_compression_info(data, _EXTENSION.size, account=_ACCOUNT, size=size, lamports=lamports)
    return ASSOCIATED_TOKEN if associated else TOKEN, info


def decode_token_account(account: Account) -> TokenAccount | None:
    """Return the token account in an account; None if it is not one that pays rent. Raises MalformedAccount."""
    found = decode_token_rent(account.data[RENT_OFFSET:], len(account.data), account.lamports)
    if found is None:
        return None
    kind, info = found
    mint, owner, has_delegate, delegate = _TOKEN.unpack_from(account.data)
    _, _, extensions, _, compression_only, _ = _EXTENSION.unpack_from(account.data, RENT_OFFSET)
    is_frozen = account.data[_STATE_OFFSET] == _FROZEN
    return TokenAccount(
        address=account.address,
        mint=Pubkey(mint),
        owner=account.address if info.to_itself else Pubkey(owner),
        delegate=Pubkey(delegate) if has_delegate else None,
        compression_authority=info.authority,
        rent_sponsor=info.rent_sponsor,
        rent=info.rent,
        kind=kind,
        is_extended=bool(kind == ASSOCIATED_TOKEN or has_delegate or compression_only or is_frozen or extensions > 1),
    )
