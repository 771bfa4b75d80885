"""Instructions of the system, stake, lookup table, loader and associated token programs.

Source: shared/localnet/docs/parsed.md, "Instructions".
"""

from collections.abc import Sequence
from typing import Any

from localnet.borsh import MalformedData, Reader
from localnet.rpc.parsed.fields import (
    address,
    base64_bytes,
    i64,
    nested,
    one_of,
    optional,
    several,
    text,
    u8,
    u32,
    u64,
)
from localnet.rpc.parsed.specs import Json, Spec, choose

_SEED = text(u64)
_STAKE_AUTHORITY = one_of(u32, ("Staker", "Withdrawer"))
_NEW = (("lamports", u64), ("space", u64), ("owner", address))


def _prefunded(info: Json, accounts: Sequence[str], _cursor: Reader) -> Json:
    if info["lamports"]:
        if len(accounts) < 2:
            raise MalformedData
        return info
    return {name: value for name, value in info.items() if name not in ("lamports", "source")}


SYSTEM = choose(
    {
        0: Spec("createAccount", ("source", "newAccount"), _NEW),
        1: Spec("assign", ("account",), (("owner", address),)),
        2: Spec("transfer", ("source", "destination"), (("lamports", u64),)),
        3: Spec("createAccountWithSeed", ("source", "newAccount"), (("base", address), ("seed", _SEED), *_NEW)),
        4: Spec("advanceNonce", ("nonceAccount", "recentBlockhashesSysvar", "nonceAuthority")),
        5: Spec(
            "withdrawFromNonce",
            ("nonceAccount", "destination", "recentBlockhashesSysvar", "rentSysvar", "nonceAuthority"),
            (("lamports", u64),),
        ),
        6: Spec(
            "initializeNonce",
            ("nonceAccount", "recentBlockhashesSysvar", "rentSysvar"),
            (("nonceAuthority", address),),
        ),
        7: Spec("authorizeNonce", ("nonceAccount", "nonceAuthority"), (("newAuthorized", address),)),
        8: Spec("allocate", ("account",), (("space", u64),)),
        9: Spec(
            "allocateWithSeed",
            ("account",),
            (("base", address), ("seed", _SEED), ("space", u64), ("owner", address)),
            minimum=2,
        ),
        10: Spec("assignWithSeed", ("account",), (("base", address), ("seed", _SEED), ("owner", address)), minimum=2),
        11: Spec(
            "transferWithSeed",
            ("source", "sourceBase", "destination"),
            (("lamports", u64), ("sourceSeed", _SEED), ("sourceOwner", address)),
        ),
        12: Spec("upgradeNonce", ("nonceAccount",)),
        13: Spec("createAccountAllowPrefund", ("newAccount", "source?"), _NEW, finish=_prefunded),
    },
    u32,
)

_LOCKUP = nested(("unixTimestamp", i64), ("epoch", u64), ("custodian", address))
_AUTHORIZED = nested(("staker", address), ("withdrawer", address))
_SEEDED = (("authorityType", _STAKE_AUTHORITY), ("authoritySeed", _SEED), ("authorityOwner", address))


def _checked_lockup(info: Json, accounts: Sequence[str], _cursor: Reader) -> Json:
    if len(accounts) > 2:
        info["lockup"]["custodian"] = accounts[2]
    return info


STAKE = choose(
    {
        0: Spec("initialize", ("stakeAccount", "rentSysvar"), (("authorized", _AUTHORIZED), ("lockup", _LOCKUP))),
        1: Spec(
            "authorize",
            ("stakeAccount", "clockSysvar", "authority", "custodian?"),
            (("newAuthority", address), ("authorityType", _STAKE_AUTHORITY)),
        ),
        2: Spec(
            "delegate",
            (
                "stakeAccount",
                "voteAccount",
                "clockSysvar",
                "stakeHistorySysvar",
                "stakeConfigAccount",
                "stakeAuthority",
            ),
        ),
        3: Spec("split", ("stakeAccount", "newSplitAccount", "stakeAuthority"), (("lamports", u64),)),
        4: Spec(
            "withdraw",
            ("stakeAccount", "destination", "clockSysvar", "stakeHistorySysvar", "withdrawAuthority", "custodian?"),
            (("lamports", u64),),
        ),
        5: Spec("deactivate", ("stakeAccount", "clockSysvar", "stakeAuthority")),
        6: Spec(
            "setLockup",
            ("stakeAccount", "custodian"),
            (
                (
                    "lockup",
                    nested(
                        ("unixTimestamp?", optional(i64)),
                        ("epoch?", optional(u64)),
                        ("custodian?", optional(address)),
                    ),
                ),
            ),
        ),
        7: Spec("merge", ("destination", "source", "clockSysvar", "stakeHistorySysvar", "stakeAuthority")),
        8: Spec(
            "authorizeWithSeed",
            ("stakeAccount", "authorityBase", "clockSysvar?", "custodian?"),
            (("newAuthorized", address), *_SEEDED),
        ),
        9: Spec("initializeChecked", ("stakeAccount", "rentSysvar", "staker", "withdrawer")),
        10: Spec(
            "authorizeChecked",
            ("stakeAccount", "clockSysvar", "authority", "newAuthority", "custodian?"),
            (("authorityType", _STAKE_AUTHORITY),),
        ),
        11: Spec(
            "authorizeCheckedWithSeed",
            ("stakeAccount", "authorityBase", "clockSysvar", "newAuthorized", "custodian?"),
            _SEEDED,
        ),
        12: Spec(
            "setLockupChecked",
            ("stakeAccount", "custodian"),
            (("lockup", nested(("unixTimestamp?", optional(i64)), ("epoch?", optional(u64)))),),
            finish=_checked_lockup,
        ),
        13: Spec("getMinimumDelegation"),
        14: Spec("deactivateDelinquent", ("stakeAccount", "voteAccount", "referenceVoteAccount")),
        15: Spec(
            "redelegate",
            ("stakeAccount", "newStakeAccount", "voteAccount", "stakeConfigAccount", "stakeAuthority"),
        ),
        16: Spec("moveStake", ("source", "destination", "stakeAuthority"), (("lamports", u64),)),
        17: Spec("moveLamports", ("source", "destination", "stakeAuthority"), (("lamports", u64),)),
    },
    u32,
)


def _extended(info: Json, accounts: Sequence[str], _cursor: Reader) -> Json:
    if len(accounts) == 3:
        del info["payerAccount"]
    return info


_TABLE = ("lookupTableAccount", "lookupTableAuthority")
LOOKUP_TABLE = choose(
    {
        0: Spec(
            "createLookupTable", (*_TABLE, "payerAccount", "systemProgram"), (("recentSlot", u64), ("bumpSeed", u8))
        ),
        1: Spec("freezeLookupTable", _TABLE),
        2: Spec(
            "extendLookupTable",
            (*_TABLE, "payerAccount?", "systemProgram?"),
            (("newAddresses", several(u64, address)),),
            finish=_extended,
        ),
        3: Spec("deactivateLookupTable", _TABLE),
        4: Spec("closeLookupTable", (*_TABLE, "recipient")),
    },
    u32,
)

_WRITE = (("offset", u32), ("bytes", base64_bytes))
LOADER = choose({0: Spec("write", ("account",), _WRITE), 1: Spec("finalize", ("account",), minimum=2)}, u32)

UPGRADEABLE_LOADER = choose(
    {
        0: Spec("initializeBuffer", ("account", "authority?")),
        1: Spec("write", ("account", "authority"), _WRITE),
        2: Spec(
            "deployWithMaxDataLen",
            (
                "payerAccount",
                "programDataAccount",
                "programAccount",
                "bufferAccount",
                "rentSysvar",
                "clockSysvar",
                "systemProgram",
                "authority",
            ),
            (("maxDataLen", u64),),
        ),
        3: Spec(
            "upgrade",
            (
                "programDataAccount",
                "programAccount",
                "bufferAccount",
                "spillAccount",
                "rentSysvar",
                "clockSysvar",
                "authority",
            ),
        ),
        4: Spec("setAuthority", ("account", "authority", "newAuthority!")),
        5: Spec("close", ("account", "recipient", "authority", "programAccount!")),
        6: Spec(
            "extendProgram",
            ("programDataAccount", "programAccount", "systemProgram!", "payerAccount!"),
            (("additionalBytes", u32),),
        ),
        7: Spec("setAuthorityChecked", ("account", "authority", "newAuthority")),
    },
    u32,
)

_CREATE = ("source", "account", "wallet", "mint", "systemProgram", "tokenProgram")
_ASSOCIATED = choose(
    {
        0: Spec("create", _CREATE),
        1: Spec("createIdempotent", _CREATE),
        2: Spec(
            "recoverNested",
            ("nestedSource", "nestedMint", "destination", "nestedOwner", "ownerMint", "wallet", "tokenProgram"),
        ),
    },
    u8,
)


def associated_token(data: bytes, accounts: Sequence[str]) -> Json:
    """Parse an instruction of the associated token program; without data it creates an account."""
    if len(data) > 1:
        raise MalformedData
    return _ASSOCIATED(data or b"\0", accounts)


def memo(data: bytes, _accounts: Sequence[str]) -> Any:
    """Return the text of a memo."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise MalformedData from error
