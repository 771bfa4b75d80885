"""Accounts of the SPL token programs (shared/localnet/docs/parsed.md, "Accounts")."""

from typing import Any

from localnet.borsh import MalformedData, Reader
from localnet.chain import token_accounts as layout
from localnet.rpc.parsed.amounts import Display, display_of
from localnet.rpc.parsed.fields import (
    address,
    boolean,
    fixed_optional,
    members,
    one_of,
    u8,
    u64,
    u64_text,
)
from localnet.rpc.parsed.token_extension_types import ACCOUNT_STATES
from localnet.rpc.parsed.token_extensions import encode_extension, extensions_of

_MINT = (
    ("mintAuthority", fixed_optional(address)),
    ("supply", u64_text),
    ("decimals", u8),
    ("isInitialized", boolean),
    ("freezeAuthority", fixed_optional(address)),
)
_HOLDING = (
    ("mint", address),
    ("owner", address),
    ("amount", u64),
    ("delegate", fixed_optional(address)),
    ("state", one_of(u8, ACCOUNT_STATES)),
    ("native", fixed_optional(u64)),
    ("delegatedAmount", u64),
    ("closeAuthority?", fixed_optional(address)),
)
_MULTISIG_SIGNERS = 11


def mint_display(data: bytes, now: int) -> Display | None:
    """Return the rules by which a mint displays amounts, None if it is none; ``now`` is in seconds since 1970."""
    mint = layout.mint_in(data)
    return None if mint is None else display_of(mint.decimals, extensions_of(data), now)


def parse_token_account(data: bytes, display: Display | None) -> dict[str, Any]:
    """Return a token account, mint or multisig; ``display`` describes a token account's mint, or is None."""
    if layout.holding(data) is not None:
        if display is None:
            raise MalformedData
        return {"type": "account", "info": _holding(data, display) | _extensions(data, mint=False)}
    if layout.mint_in(data) is not None:
        return {"type": "mint", "info": members(Reader(data), _MINT) | _extensions(data, mint=True)}
    if len(data) == layout.MULTISIG_BYTES and data[2] == 1:
        return {"type": "multisig", "info": _multisig(Reader(data))}
    raise MalformedData


def _holding(data: bytes, display: Display) -> dict[str, Any]:
    info = members(Reader(data), _HOLDING)
    native, delegated = info.pop("native"), info.pop("delegatedAmount")
    info["tokenAmount"] = display.amount(info.pop("amount"))
    info["isNative"] = native is not None
    if native is not None:
        info["rentExemptReserve"] = display.amount(native)
    if info["delegate"] is None:
        del info["delegate"]
    else:
        info["delegatedAmount"] = display.amount(delegated)
    return info


def _multisig(cursor: Reader) -> dict[str, Any]:
    info = {"numRequiredSigners": u8(cursor), "numValidSigners": u8(cursor), "isInitialized": boolean(cursor)}
    none = "1" * 32
    signers = [address(cursor) for _ in range(_MULTISIG_SIGNERS)]
    return info | {"signers": [signer for signer in signers if signer != none]}


def _extensions(data: bytes, *, mint: bool) -> dict[str, Any]:
    encoded = [encode_extension(kind, content, mint=mint) for kind, content in extensions_of(data).items()]
    return {"extensions": encoded} if encoded else {}
