"""Instructions of the SPL token programs (shared/localnet/docs/parsed.md, "Instructions")."""

from collections.abc import Sequence

from localnet.borsh import MalformedData, Reader
from localnet.rpc.parsed.amounts import checked_amount
from localnet.rpc.parsed.fields import (
    address,
    one_of,
    optional,
    text_to_end,
    u8,
    u16,
    u64_text,
)
from localnet.rpc.parsed.specs import Json, Spec, authority
from localnet.rpc.parsed.token_extension_instructions import BY_DISCRIMINATOR, BY_EXTENSION
from localnet.rpc.parsed.token_extension_types import EXTENSIONS

BATCH = 255
_AMOUNT = (("amount", u64_text),)
_CHECKED = (("tokenAmount", checked_amount),)
_MINT = (("decimals", u8), ("mintAuthority", address), ("freezeAuthority?", optional(address)))
_AUTHORITY, _OWNER = authority("authority"), authority("owner")
_MINT_AUTHORITY, _FREEZE_AUTHORITY = authority("mintAuthority"), authority("freezeAuthority")

_AUTHORITIES = (
    "mintTokens",
    "freezeAccount",
    "accountOwner",
    "closeAccount",
    "transferFeeConfig",
    "withheldWithdraw",
    "closeMint",
    "interestRate",
    "permanentDelegate",
    "confidentialTransferMint",
    "transferHookProgramId",
    "confidentialTransferFeeConfig",
    "metadataPointer",
    "groupPointer",
    "groupMemberPointer",
    "scaledUiAmount",
    "pause",
    "permissionedBurn",
)


def _owned(info: Json, _accounts: Sequence[str], _cursor: Reader) -> Json:
    if info["authorityType"] not in ("accountOwner", "closeAccount"):
        info["mint"] = info.pop("account")
    return info


def _extension_types(info: Json, _accounts: Sequence[str], cursor: Reader) -> Json:
    return info | {"extensionTypes": _types(cursor)}


def _known_size(info: Json, accounts: Sequence[str], cursor: Reader) -> Json:
    found = _extension_types(info, accounts, cursor)
    return found if found["extensionTypes"] else info


def _types(cursor: Reader) -> list[str]:
    rest = cursor.rest()
    if len(rest) % 2:
        raise MalformedData
    types = Reader(rest)
    return [one_of(u16, EXTENSIONS)(types) for _ in range(len(rest) // 2)]


_SPECS = {
    0: Spec("initializeMint", ("mint", "rentSysvar"), _MINT),
    1: Spec("initializeAccount", ("account", "mint", "owner", "rentSysvar")),
    2: Spec("initializeMultisig", ("multisig", "rentSysvar"), (("m", u8),), rest="signers", minimum=3),
    3: Spec("transfer", ("source", "destination"), _AMOUNT, _AUTHORITY),
    4: Spec("approve", ("source", "delegate"), _AMOUNT, _OWNER),
    5: Spec("revoke", ("source",), (), _OWNER),
    6: Spec(
        "setAuthority",
        ("account",),
        (("authorityType", one_of(u8, _AUTHORITIES)), ("newAuthority", optional(address))),
        _AUTHORITY,
        finish=_owned,
    ),
    7: Spec("mintTo", ("mint", "account"), _AMOUNT, _MINT_AUTHORITY),
    8: Spec("burn", ("account", "mint"), _AMOUNT, _AUTHORITY),
    9: Spec("closeAccount", ("account", "destination"), (), _OWNER),
    10: Spec("freezeAccount", ("account", "mint"), (), _FREEZE_AUTHORITY),
    11: Spec("thawAccount", ("account", "mint"), (), _FREEZE_AUTHORITY),
    12: Spec("transferChecked", ("source", "mint", "destination"), _CHECKED, _AUTHORITY),
    13: Spec("approveChecked", ("source", "mint", "delegate"), _CHECKED, _OWNER),
    14: Spec("mintToChecked", ("mint", "account"), _CHECKED, _MINT_AUTHORITY),
    15: Spec("burnChecked", ("account", "mint"), _CHECKED, _AUTHORITY),
    16: Spec("initializeAccount2", ("account", "mint", "rentSysvar"), (("owner", address),)),
    17: Spec("syncNative", ("account",)),
    18: Spec("initializeAccount3", ("account", "mint"), (("owner", address),)),
    19: Spec("initializeMultisig2", ("multisig",), (("m", u8),), rest="signers", minimum=2),
    20: Spec("initializeMint2", ("mint",), _MINT),
    21: Spec("getAccountDataSize", ("mint",), finish=_known_size),
    22: Spec("initializeImmutableOwner", ("account",)),
    23: Spec("amountToUiAmount", ("mint",), _AMOUNT),
    24: Spec("uiAmountToAmount", ("mint",), (("uiAmount", text_to_end),)),
    25: Spec("initializeMintCloseAuthority", ("mint",), (("newAuthority", optional(address)),)),
    29: Spec("reallocate", ("account", "payer", "systemProgram"), (), _OWNER, finish=_extension_types),
    31: Spec("createNativeMint", ("payer", "nativeMint", "systemProgram")),
    32: Spec("initializeNonTransferableMint", ("mint",)),
    35: Spec("initializePermanentDelegate", ("mint",), (("delegate", address),)),
    38: Spec("withdrawExcessLamports", ("source", "destination"), (), _AUTHORITY),
    45: Spec("unwrapLamports", ("source", "destination"), (("amount?", optional(u64_text)),), _AUTHORITY),
}


def token(data: bytes, accounts: Sequence[str]) -> Json:
    """Parse an instruction of a token program; raise MalformedData for one without a description here."""
    if not accounts:
        raise MalformedData
    if data[:1] == bytes([BATCH]):
        return _batch(Reader(data[1:]), accounts)
    cursor = Reader(data)
    spec = BY_DISCRIMINATOR.get(data[:8])
    if spec is not None:
        cursor.take(8)
    else:
        tag = u8(cursor)
        extension = BY_EXTENSION.get(tag)
        spec = _SPECS.get(tag) if extension is None else extension.get(u8(cursor))
    if spec is None:
        raise MalformedData
    return spec.parse(cursor, accounts)


def _batch(cursor: Reader, accounts: Sequence[str]) -> Json:
    """Parse several instructions in one: each has counts of accounts and bytes, then its bytes."""
    instructions = []
    rest = cursor.rest()
    while rest:
        if len(rest) < 2 or len(rest) < 2 + rest[1] or len(accounts) < rest[0] or rest[2:3] == bytes([BATCH]):
            raise MalformedData
        instructions.append(token(rest[2 : 2 + rest[1]], accounts[: rest[0]]))
        accounts, rest = accounts[rest[0] :], rest[2 + rest[1] :]
    return {"type": "batch", "info": {"instructions": instructions}}
