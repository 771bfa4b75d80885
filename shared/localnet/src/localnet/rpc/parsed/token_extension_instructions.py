"""Instructions for extensions of Token-2022 (shared/localnet/docs/parsed.md, "Token extensions")."""

import hashlib
from collections.abc import Sequence

from localnet.borsh import MalformedData, Reader
from localnet.rpc.parsed.amounts import Display, checked_amount
from localnet.rpc.parsed.fields import (
    address,
    address_or_none,
    f64_text,
    i16,
    i64,
    one_of,
    optional,
    text,
    u8,
    u16,
    u32,
    u64,
    u64_text,
)
from localnet.rpc.parsed.specs import Json, Spec, authority, exact_spec, signers
from localnet.rpc.parsed.token_confidential_instructions import (
    CONFIDENTIAL_FEE,
    CONFIDENTIAL_MINT_BURN,
    CONFIDENTIAL_TRANSFER,
    PERMISSIONED_CONFIDENTIAL_BURN,
)
from localnet.rpc.parsed.token_extension_types import ACCOUNT_STATES

_AUTHORITY, _OWNER = authority("authority"), authority("owner")
_WITHDRAW = authority("withdrawWithheldAuthority")
_FEE = (("transferFeeBasisPoints", u16), ("maximumFee", u64))


def _fee(cursor: Reader) -> Json:
    amount, decimals, fee = u64(cursor), u8(cursor), u64(cursor)
    display = Display(decimals)
    return {"tokenAmount": display.amount(amount), "feeAmount": display.amount(fee)}


def _with_fee(info: Json, _accounts: Sequence[str], _cursor: Reader) -> Json:
    amounts: Json = info.pop("amounts")
    return info | amounts


def _from_accounts(info: Json, accounts: Sequence[str], _cursor: Reader) -> Json:
    sources = info.pop("sources")
    if len(accounts) < 3 + sources:
        raise MalformedData
    split = len(accounts) - sources
    return info | {"sourceAccounts": list(accounts[split:])} | signers(accounts[2:split], _WITHDRAW)


def _pointer(kind: str, member: str) -> dict[int, Spec]:
    """Return the instructions of an extension that points to an account."""
    return {
        0: exact_spec(
            f"initialize{kind}", ("mint",), (("authority?", address_or_none), (f"{member}?", address_or_none))
        ),
        1: exact_spec(f"update{kind}", ("mint",), ((f"{member}?", address_or_none),), _AUTHORITY),
    }


def _switch(kind: str) -> dict[int, Spec]:
    """Return the instructions of an extension that is on or off."""
    return {0: Spec(f"enable{kind}", ("account",), (), _OWNER), 1: Spec(f"disable{kind}", ("account",), (), _OWNER)}


_STATE = (("accountState", one_of(u8, ACCOUNT_STATES)),)
_BURN = ("account", "mint", "permissionedBurnAuthority")

BY_EXTENSION: dict[int, dict[int, Spec]] = {
    26: {
        0: Spec(
            "initializeTransferFeeConfig",
            ("mint",),
            (
                ("transferFeeConfigAuthority?", optional(address)),
                ("withdrawWithheldAuthority?", optional(address)),
                *_FEE,
            ),
        ),
        1: Spec(
            "transferCheckedWithFee",
            ("source", "mint", "destination"),
            (("amounts", _fee),),
            _AUTHORITY,
            finish=_with_fee,
        ),
        2: Spec("withdrawWithheldTokensFromMint", ("mint", "feeRecipient"), (), _WITHDRAW),
        3: Spec(
            "withdrawWithheldTokensFromAccounts",
            ("mint", "feeRecipient"),
            (("sources", u8),),
            finish=_from_accounts,
        ),
        4: Spec("harvestWithheldTokensToMint", ("mint",), rest="sourceAccounts"),
        # Nodes write this second name so.
        5: Spec(
            "setTransferFee",
            ("mint",),
            _FEE,
            ("transferFeeConfigAuthority", "multisigtransferFeeConfigAuthority"),
        ),
    },
    27: CONFIDENTIAL_TRANSFER,
    28: {
        0: exact_spec("initializeDefaultAccountState", ("mint",), _STATE),
        1: exact_spec("updateDefaultAccountState", ("mint",), _STATE, authority("freezeAuthority")),
    },
    30: _switch("RequiredMemoTransfers"),
    33: {
        0: exact_spec(
            "initializeInterestBearingConfig", ("mint",), (("rateAuthority", address_or_none), ("rate", i16))
        ),
        1: exact_spec("updateInterestBearingConfigRate", ("mint",), (("newRate", i16),), authority("rateAuthority")),
    },
    34: _switch("CpiGuard"),
    36: {
        0: exact_spec(
            "initializeTransferHook", ("mint",), (("authority?", address_or_none), ("programId?", address_or_none))
        ),
        1: exact_spec("updateTransferHook", ("mint",), (("programId?", address_or_none),), _AUTHORITY),
    },
    37: CONFIDENTIAL_FEE,
    39: _pointer("MetadataPointer", "metadataAddress"),
    40: _pointer("GroupPointer", "groupAddress"),
    41: _pointer("GroupMemberPointer", "memberAddress"),
    42: CONFIDENTIAL_MINT_BURN,
    43: {
        0: exact_spec(
            "initializeScaledUiAmountConfig", ("mint",), (("authority", address_or_none), ("multiplier", f64_text))
        ),
        1: exact_spec(
            "updateMultiplier", ("mint",), (("newMultiplier", f64_text), ("newMultiplierTimestamp", i64)), _AUTHORITY
        ),
    },
    44: {
        0: exact_spec("initializePausableConfig", ("mint",), (("authority", address),)),
        1: Spec("pause", ("mint",), (), _AUTHORITY),
        2: Spec("resume", ("mint",), (), _AUTHORITY),
    },
    46: {
        0: exact_spec("initializePermissionedBurnConfig", ("mint",), (("authority", address),)),
        1: exact_spec("permissionedBurn", _BURN, (("amount", u64_text),), _AUTHORITY),
        2: exact_spec("permissionedBurnChecked", _BURN, (("tokenAmount", checked_amount),), _AUTHORITY),
        3: PERMISSIONED_CONFIDENTIAL_BURN,
    },
}
"""Instructions by the program's tag of the extension, then by the extension's own."""


def _metadata_field(cursor: Reader) -> str:
    kind = one_of(u8, ("name", "symbol", "uri", ""))(cursor)
    name: str = kind or text(u32)(cursor)
    return name


def _flag(cursor: Reader) -> bool:
    value = u8(cursor)
    if value > 1:
        raise MalformedData
    return value == 1


def _discriminator(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()[:8]


_METADATA = ("metadata", "updateAuthority")
BY_DISCRIMINATOR = {
    _discriminator(name): spec
    for name, spec in {
        "spl_token_group_interface:initialize_token_group": exact_spec(
            "initializeTokenGroup",
            ("group", "mint", "mintAuthority"),
            (("updateAuthority", address_or_none), ("maxSize", u64)),
        ),
        "spl_token_group_interface:update_group_max_size": exact_spec(
            "updateTokenGroupMaxSize", ("group", "updateAuthority"), (("maxSize", u64),)
        ),
        "spl_token_group_interface:update_authority": exact_spec(
            "updateTokenGroupAuthority", ("group", "updateAuthority"), (("newAuthority", address_or_none),)
        ),
        "spl_token_group_interface:initialize_member": exact_spec(
            "initializeTokenGroupMember",
            ("member", "memberMint", "memberMintAuthority", "group", "groupUpdateAuthority"),
        ),
        "spl_token_metadata_interface:initialize_account": exact_spec(
            "initializeTokenMetadata",
            (*_METADATA, "mint", "mintAuthority"),
            (("name", text(u32)), ("symbol", text(u32)), ("uri", text(u32))),
        ),
        "spl_token_metadata_interface:updating_field": exact_spec(
            "updateTokenMetadataField", _METADATA, (("field", _metadata_field), ("value", text(u32)))
        ),
        "spl_token_metadata_interface:remove_key_ix": exact_spec(
            "removeTokenMetadataKey", _METADATA, (("idempotent", _flag), ("key", text(u32)))
        ),
        "spl_token_metadata_interface:update_the_authority": exact_spec(
            "updateTokenMetadataAuthority", _METADATA, (("newAuthority", address_or_none),)
        ),
        "spl_token_metadata_interface:emitter": exact_spec(
            "emitTokenMetadata", ("metadata",), (("start?", optional(u64)), ("end?", optional(u64)))
        ),
    }.items()
}
"""Instructions of the interfaces for groups and metadata."""
