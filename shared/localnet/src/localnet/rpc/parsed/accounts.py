"""Accounts as nodes write them under ``jsonParsed`` (shared/localnet/docs/parsed.md, "Accounts")."""

import base64
from collections.abc import Callable
from typing import Any

from solders.account import Account
from solders.pubkey import Pubkey

from localnet import base58
from localnet.borsh import MalformedData, Reader
from localnet.chain.execution import LOOKUP_TABLE_HEADER
from localnet.chain.token_accounts import TOKEN_2022_PROGRAM, TOKEN_PROGRAM, holding
from localnet.rpc.parsed.amounts import Display
from localnet.rpc.parsed.fields import (
    address,
    i64,
    members,
    nested,
    optional,
    u8,
    u16,
    u32,
    u64,
    u64_text,
)
from localnet.rpc.parsed.token_accounts import parse_token_account

Json = dict[str, Any]
Displays = Callable[[Pubkey], Display | None]
"""Function that returns the rules by which a mint displays amounts, None if there is no such mint."""

_META = nested(
    ("rentExemptReserve", u64_text),
    ("authorized", nested(("staker", address), ("withdrawer", address))),
    ("lockup", nested(("unixTimestamp", i64), ("epoch", u64), ("custodian", address))),
)


def _warmup(cursor: Reader) -> None:
    cursor.take(8)


_DELEGATION = (
    ("voter", address),
    ("stake", u64_text),
    ("activationEpoch", u64_text),
    ("deactivationEpoch", u64_text),
    ("warmup?", _warmup),
)
_STAKE = nested(("delegation", nested(*_DELEGATION)), ("creditsObserved", u64))


def _nonce(data: bytes) -> Json:
    cursor = Reader(data)
    if u32(cursor) > 1 or u32(cursor) != 1:
        raise MalformedData
    info = members(cursor, (("authority", address), ("blockhash", address)))
    return {"type": "initialized", "info": info | {"feeCalculator": {"lamportsPerSignature": u64_text(cursor)}}}


def _lookup_table(data: bytes) -> Json:
    cursor = Reader(data)
    kind = u32(cursor)
    if kind == 0:
        return {"type": "uninitialized"}
    fields = (
        ("deactivationSlot", u64_text),
        ("lastExtendedSlot", u64_text),
        ("lastExtendedSlotStartIndex", u8),
        ("authority?", optional(address)),
    )
    info = members(cursor, fields)
    u16(cursor)  # padding
    addresses = data[LOOKUP_TABLE_HEADER:]
    if kind != 1 or len(addresses) % 32 or len(data) < LOOKUP_TABLE_HEADER:
        raise MalformedData
    info["addresses"] = [base58.encode(addresses[at : at + 32]) for at in range(0, len(addresses), 32)]
    return {"type": "lookupTable", "info": info}


def _stake(data: bytes) -> Json:
    cursor = Reader(data)
    kind = u32(cursor)
    if kind in (0, 3):
        return {"type": "rewardsPool" if kind else "uninitialized"}
    if kind > 3:
        raise MalformedData
    meta = _META(cursor)
    stake = _STAKE(cursor) if kind == 2 else None
    if kind == 2:
        u8(cursor)  # flags
    return {"type": "delegated" if stake else "initialized", "info": {"meta": meta, "stake": stake}}


def _loader(data: bytes) -> Json:
    cursor = Reader(data)
    kind = u32(cursor)
    if kind == 0:
        return {"type": "uninitialized"}
    if kind == 2:
        return {"type": "program", "info": {"programData": address(cursor)}}
    if kind not in (1, 3):
        raise MalformedData
    info: Json = {"slot": u64(cursor)} if kind == 3 else {}
    info["authority"] = optional(address)(cursor)
    info["data"] = [base64.b64encode(cursor.rest()).decode(), "base64"]
    return {"type": "programData" if kind == 3 else "buffer", "info": info}


_PARSERS: dict[str, tuple[str, Callable[[bytes], Json]]] = {
    "11111111111111111111111111111111": ("nonce", _nonce),
    "AddressLookupTab1e1111111111111111111111111": ("address-lookup-table", _lookup_table),
    "Stake11111111111111111111111111111111111111": ("stake", _stake),
    "BPFLoaderUpgradeab1e11111111111111111111111": ("bpf-upgradeable-loader", _loader),
}
_TOKEN_NAMES = {TOKEN_PROGRAM: "spl-token", TOKEN_2022_PROGRAM: "spl-token-2022"}


def parse_account(account: Account, displays: Displays) -> Json | None:
    """Return the parsed data of an account; None if nodes or this table have no parser for it."""
    data = bytes(account.data)
    found = _PARSERS.get(str(account.owner))
    name = _TOKEN_NAMES.get(account.owner)
    try:
        if name is not None:
            held = holding(data)
            parsed = parse_token_account(data, None if held is None else displays(held.mint))
        elif found is not None:
            name, parsed = found[0], found[1](data)
        else:
            return None
    except MalformedData:
        return None
    return {"program": name, "parsed": parsed, "space": len(data)}
