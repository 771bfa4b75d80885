"""Errors of failed transactions: which program refused, with which code, and its name.

Source: forester/docs/reference/programs.md, "Error codes".

Several programs number their errors from 6000. The code belongs to the innermost one, which the logs name first.
"""

import enum
import re
from collections.abc import Sequence
from typing import Any

from forester.chain.programs.addresses import ACCOUNT_COMPRESSION, LIGHT_SYSTEM, REGISTRY
from forester.errors import AlreadyProcessed, InsufficientFunds, TransactionRefused

_FAILED = re.compile(r"^Program (\w{1,44}) failed: (?:custom program error: (0x[0-9a-fA-F]{1,8})\b)?")

_REGISTRY_CODES = {
    6000: "InvalidForester",
    6001: "NotInReportWorkPhase",
    6002: "StakeAccountAlreadySynced",
    6003: "EpochEnded",
    6004: "ForesterNotEligible",
    6005: "NotInRegistrationPeriod",
    6006: "WeightInsuffient",
    6007: "ForesterAlreadyRegistered",
    6008: "InvalidEpochAccount",
    6009: "InvalidEpoch",
    6010: "EpochStillInProgress",
    6011: "NotInActivePhase",
    6012: "ForesterAlreadyReportedWork",
    6013: "InvalidNetworkFee",
    6014: "FinalizeCounterExceeded",
    6015: "CpiContextAccountMissing",
    6016: "ArithmeticUnderflow",
    6017: "RegistrationNotFinalized",
    6018: "CpiContextAccountInvalidDataLen",
    6019: "InvalidConfigUpdate",
    6020: "InvalidSigner",
    6021: "GetLatestRegisterEpochFailed",
    6022: "GetCurrentActiveEpochFailed",
    6023: "ForesterUndefined",
    6024: "ForesterDefined",
    6025: "InsufficientFunds",
    6026: "ProgramOwnerDefined",
    6027: "ProgramOwnerUndefined",
    6028: "InvalidConfigState",
    6029: "InvalidTokenAccountData",
    6030: "EmptyIndices",
    6031: "BorrowAccountDataFailed",
    6032: "SerializationFailed",
}
_COMPRESSION_CODES = {6015: "LeafNotFound"}
_LIBRARY_CODES = {
    9001: "Full",
    9002: "ElementAlreadyExists",
    9003: "ElementDoesNotExist",
    10007: "TreeIsFull",
    10010: "InvalidProof",
    10011: "CannotUpdateLeaf",
    10012: "CannotUpdateEmpty",
    13006: "ProofVerificationFailed",
    14002: "RolloverNotConfigured",
    14003: "MerkleTreeAlreadyRolledOver",
    14006: "NotReadyForRollover",
    14301: "BatchNotReady",
    14302: "BatchAlreadyInserted",
    14303: "BatchInsertFailed",
    14310: "TreeIsFull",
    14311: "NonInclusionCheckFailed",
    14312: "BloomFilterNotZeroed",
}
_NAMES = {str(REGISTRY): "registry", str(ACCOUNT_COMPRESSION): "account-compression", str(LIGHT_SYSTEM): "light-system"}
_NO_FEE = ("InsufficientFundsForFee", "AccountNotFound")
_NO_RENT = "InsufficientFundsForRent"
_MOST_INSTRUCTIONS = _MOST_ACCOUNTS = 256
_PAYER_INDEX = 0
"""The first account of a transaction pays for it."""


class ForesterRefusal(enum.IntEnum):
    """Codes by which the registry refuses a forester, its share or the phase, rather than an account.

    Callers test whether a code is a member: a code that affects an account does not belong here.
    Source: forester/docs/reference/programs.md, "Error codes".
    """

    INVALID_FORESTER = 6000
    NOT_IN_REPORT_WORK_PHASE = 6001
    FORESTER_NOT_ELIGIBLE = 6004
    NOT_IN_REGISTRATION_PERIOD = 6005
    WEIGHT_INSUFFICIENT = 6006
    FORESTER_ALREADY_REGISTERED = 6007
    INVALID_EPOCH = 6009
    NOT_IN_ACTIVE_PHASE = 6011
    FORESTER_ALREADY_REPORTED_WORK = 6012
    FINALIZE_COUNTER_EXCEEDED = 6014
    REGISTRATION_NOT_FINALIZED = 6017
    FORESTER_UNDEFINED = 6023


def error_name(program: str | None, code: int) -> str | None:
    """Return the name of a program's error code, None if it is not known."""
    if program == str(REGISTRY) and code in _REGISTRY_CODES:
        return _REGISTRY_CODES[code]
    if program == str(ACCOUNT_COMPRESSION) and code in _COMPRESSION_CODES:
        return _COMPRESSION_CODES[code]
    return _LIBRARY_CODES.get(code)


def innermost_failure(logs: Sequence[str]) -> tuple[str | None, int | None]:
    """Return the program that failed first and its code, from the logs of a transaction."""
    for line in logs:
        found = _FAILED.match(line)
        if found:
            return found[1], int(found[2], 16) if found[2] else None
    return None, None


def transaction_refused(error: Any, logs: Sequence[str] = ()) -> TransactionRefused:
    """Return the error of a transaction's ``err`` and logs; InsufficientFunds if the payer lacks money."""
    if isinstance(error, str) and error in _NO_FEE:
        return InsufficientFunds(f"insufficient funds: {error}")
    if error == "AlreadyProcessed":
        return AlreadyProcessed()
    if isinstance(error, dict) and _NO_RENT in error:
        return _without_rent(error[_NO_RENT])
    position, code = _instruction_error(error)
    program, logged = innermost_failure(logs)
    code = logged if logged is not None else code
    if any("insufficient lamports" in line for line in logs):
        return InsufficientFunds("insufficient funds: insufficient lamports", program=program, instruction=position)
    if position is None:
        return TransactionRefused(f"the chain refused a transaction: {_kind(error)}")
    known = error_name(program, code) if code is not None else None
    what = (
        f"error {code}" + (f" ({known})" if known else "") if code is not None else _kind(error["InstructionError"][1])
    )
    whose = _NAMES.get(program, program) if program else "a program"
    return TransactionRefused(
        f"{whose} refused instruction {position}: {what}", program=program, code=code, instruction=position
    )


def _kind(error: Any) -> str:
    """Return the name of an error of a transaction or instruction: a text, or the only member of an object."""
    name = next(iter(error), None) if isinstance(error, dict) else error
    return name[:100] if isinstance(name, str) else "unknown"


def _without_rent(fields: Any) -> TransactionRefused:
    """Return the error of an account that would keep less than the rent-free minimum: it may not be the payer's."""
    index = fields.get("account_index") if isinstance(fields, dict) else None
    if not _is_number(index, _MOST_ACCOUNTS):
        index = None
    if index == _PAYER_INDEX:
        return InsufficientFunds(f"insufficient funds: {_NO_RENT}")
    which = f"account {index}, not the payer's," if index is not None else "an account"
    return TransactionRefused(
        f"the chain refused a transaction: {which} would keep too little for its rent ({_NO_RENT}); send SOL to it"
    )


def _instruction_error(error: Any) -> tuple[int | None, int | None]:
    """Return the position and custom code of ``{"InstructionError": [position, {"Custom": code}]}``."""
    if not isinstance(error, dict):
        return None, None
    parts = error.get("InstructionError")
    if not isinstance(parts, list) or len(parts) != 2 or not _is_number(parts[0], _MOST_INSTRUCTIONS):
        return None, None
    custom = parts[1].get("Custom") if isinstance(parts[1], dict) else None
    return parts[0], custom if _is_number(custom, 2**32) else None


def _is_number(value: Any, end: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < end
