"""Extensions in mints and accounts of Token-2022 (shared/localnet/docs/parsed.md, "Token extensions")."""

from typing import Any

from localnet.borsh import MalformedData, Reader
from localnet.chain.token_accounts import ACCOUNT_TYPE
from localnet.rpc.parsed.fields import (
    Field,
    address,
    address_or_none,
    boolean,
    f64_text,
    fixed_bytes,
    i16,
    i64,
    key_or_none,
    members,
    nested,
    one_of,
    several,
    text,
    u8,
    u16,
    u32,
    u64,
)
from localnet.rpc.parsed.token_extension_types import ACCOUNT_STATES, EXTENSIONS


def _pair(cursor: Reader) -> list[str]:
    read = text(u32)
    return [read(cursor), read(cursor)]


_KEY, _CIPHERTEXT, _AMOUNT_CIPHERTEXT = fixed_bytes(32), fixed_bytes(64), fixed_bytes(36)
_TRANSFER_FEE = nested(("epoch", u64), ("maximumFee", u64), ("transferFeeBasisPoints", u16))
_STATES: dict[int, tuple[Field, ...]] = {
    1: (
        ("transferFeeConfigAuthority", address_or_none),
        ("withdrawWithheldAuthority", address_or_none),
        ("withheldAmount", u64),
        ("olderTransferFee", _TRANSFER_FEE),
        ("newerTransferFee", _TRANSFER_FEE),
    ),
    2: (("withheldAmount", u64),),
    3: (("closeAuthority", address_or_none),),
    4: (
        ("authority", address_or_none),
        ("autoApproveNewAccounts", boolean),
        ("auditorElgamalPubkey", key_or_none),
    ),
    5: (
        ("approved", boolean),
        ("elgamalPubkey", _KEY),
        ("pendingBalanceLo", _CIPHERTEXT),
        ("pendingBalanceHi", _CIPHERTEXT),
        ("availableBalance", _CIPHERTEXT),
        ("decryptableAvailableBalance", _AMOUNT_CIPHERTEXT),
        ("allowConfidentialCredits", boolean),
        ("allowNonConfidentialCredits", boolean),
        ("pendingBalanceCreditCounter", u64),
        ("maximumPendingBalanceCreditCounter", u64),
        ("expectedPendingBalanceCreditCounter", u64),
        ("actualPendingBalanceCreditCounter", u64),
    ),
    6: (("accountState", one_of(u8, ACCOUNT_STATES)),),
    8: (("requireIncomingTransferMemos", boolean),),
    10: (
        ("rateAuthority", address_or_none),
        ("initializationTimestamp", i64),
        ("preUpdateAverageRate", i16),
        ("lastUpdateTimestamp", i64),
        ("currentRate", i16),
    ),
    11: (("lockCpi", boolean),),
    12: (("delegate", address_or_none),),
    14: (("authority", address_or_none), ("programId", address_or_none)),
    15: (("transferring", boolean),),
    16: (
        ("authority", address_or_none),
        ("withdrawWithheldAuthorityElgamalPubkey", _KEY),
        ("harvestToMintEnabled", boolean),
        ("withheldAmount", _CIPHERTEXT),
    ),
    17: (("withheldAmount", _CIPHERTEXT),),
    18: (("authority", address_or_none), ("metadataAddress", address_or_none)),
    19: (
        ("updateAuthority", address_or_none),
        ("mint", address),
        ("name", text(u32)),
        ("symbol", text(u32)),
        ("uri", text(u32)),
        ("additionalMetadata", several(u32, _pair)),
    ),
    20: (("authority", address_or_none), ("groupAddress", address_or_none)),
    21: (("updateAuthority", address_or_none), ("mint", address), ("size", u64), ("maxSize", u64)),
    22: (("authority", address_or_none), ("memberAddress", address_or_none)),
    23: (("mint", address), ("group", address), ("memberNumber", u64)),
    24: (
        ("confidentialSupply", _CIPHERTEXT),
        ("decryptableSupply", _AMOUNT_CIPHERTEXT),
        ("supplyElgamalPubkey", _KEY),
        ("pendingBurn", _CIPHERTEXT),
    ),
    25: (
        ("authority", address_or_none),
        ("multiplier", f64_text),
        ("newMultiplierEffectiveTimestamp", i64),
        ("newMultiplier", f64_text),
    ),
    26: (("authority", address_or_none), ("paused", boolean)),
    28: (("authority", address_or_none),),
}
"""Content by type; the types that are missing have none."""
_OF_ACCOUNTS = (2, 5, 8, 11, 15, 17)
"""Those of them that accounts have; mints have the others."""
_OTHER_NAMES = {25: "scaledUiAmountConfig", 26: "pausableConfig", 28: "permissionedBurnConfig"}


def extensions_of(data: bytes) -> dict[int, bytes]:
    """Return the extensions behind a mint or token account, by type; none if they are malformed."""
    found: dict[int, bytes] = {}
    at = ACCOUNT_TYPE + 1
    while at + 2 <= len(data):
        kind = int.from_bytes(data[at : at + 2], "little")
        if kind == 0:
            break
        length = int.from_bytes(data[at + 2 : at + 4], "little")
        if kind >= len(EXTENSIONS) or at + 4 + length > len(data) or at + 4 > len(data):
            return {}
        found.setdefault(kind, data[at + 4 : at + 4 + length])
        at += 4 + length
    return found


def encode_extension(kind: int, content: bytes, *, mint: bool) -> dict[str, Any]:
    """Return an extension of a mint or an account with its content."""
    name = _OTHER_NAMES.get(kind, EXTENSIONS[kind])
    fields = _STATES.get(kind)
    if fields is None:
        return {"extension": name}
    cursor = Reader(content)
    try:
        state = members(cursor, fields)
        if cursor.rest() or mint == (kind in _OF_ACCOUNTS):
            raise MalformedData
    except MalformedData:
        return {"extension": "unparseableExtension"}
    return {"extension": name, "state": state}
