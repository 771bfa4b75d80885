"""Instructions for confidential transfers of Token-2022 (shared/localnet/docs/parsed.md, "Confidential transfers")."""

from collections.abc import Callable, Sequence

from localnet.borsh import MalformedData, Reader
from localnet.rpc.parsed.fields import (
    Field,
    address_or_none,
    boolean,
    fixed_bytes,
    key_or_none,
    u8,
    u64,
)
from localnet.rpc.parsed.specs import Json, Spec, authority, exact_spec, signers

_OWNER, _WITHDRAW = authority("owner"), authority("withdrawWithheldAuthority")
Finish = Callable[[Json, Sequence[str], Reader], Json]


def _i8(cursor: Reader) -> int:
    return int(cursor.unpack("b"))


def _ciphertexts(cursor: Reader) -> None:
    """Skip two ciphertexts, which nodes do not show."""
    cursor.take(2 * 64)


_KEY, _BALANCE = fixed_bytes(32), fixed_bytes(36)
_OFFSET: Field = ("proofInstructionOffset", _i8)


def _one_proof(leading: int, names: tuple[str, str]) -> Finish:
    """Return a parser of the accounts that follow ``leading`` ones: those of a proof, and the authority."""
    return lambda info, accounts, _cursor: _proved(info, accounts, leading, names, "recordAccount")


def _proved(info: Json, accounts: Sequence[str], leading: int, names: tuple[str, str], record: str) -> Json:
    at = leading + 1
    if info["proofInstructionOffset"] == 0:
        info["proofContextStateAccount"] = accounts[leading]
    else:
        info["instructionsSysvar"] = accounts[leading]
        # Nodes treat a further account as a record of the proof, although it may be a signer.
        if len(accounts) > leading + 2:
            info[record] = accounts[at]
            at += 1
    return info | signers(accounts[at:], names)


def _proofs(leading: int, proofs: Sequence[str], names: tuple[str, str] = _OWNER, burn: str | None = None) -> Finish:
    """Return a parser of the accounts of several optional proofs, then of a burn authority and of the authority."""
    last = 1 if burn is None else 2

    def finish(info: Json, accounts: Sequence[str], _cursor: Reader) -> Json:
        at, end = leading, len(accounts) - last
        offsets = {proof: info[f"{proof}ProofInstructionOffset"] for proof in proofs}
        if at < end and any(offsets.values()):
            info["instructionsSysvar"] = accounts[at]
            at += 1
        for proof, offset in offsets.items():
            if at < end:
                info[f"{proof}Proof{'Record' if offset else 'ContextState'}Account"] = accounts[at]
                at += 1
        if burn is not None:
            info[burn] = accounts[at]
            at += 1
        return info | signers(accounts[at:], names)

    return finish


def _from_accounts(info: Json, accounts: Sequence[str], _cursor: Reader) -> Json:
    sources = info.pop("sources")
    if len(accounts) < 4 + sources:
        raise MalformedData
    split = len(accounts) - sources
    info["sourceAccounts"] = list(accounts[split:])
    return _proved(info, accounts[:split], 2, _WITHDRAW, "proofAccount")


def _rotated(info: Json, accounts: Sequence[str], _cursor: Reader) -> Json:
    info["instructionsSysvar" if info["proofInstructionOffset"] else "proofAccount"] = accounts[1]
    return info | signers(accounts[2:], _OWNER)


def _offsets(*proofs: str) -> tuple[Field, ...]:
    return tuple((f"{proof}ProofInstructionOffset", _i8) for proof in proofs)


def _owned(kind: str, name: str = "account") -> Spec:
    return Spec(kind, (name,), (), _OWNER)


_THREE = ("equality", "ciphertextValidity", "range")
_FIVE = ("equality", "transferAmountCiphertextValidity", "feeCiphertextValidity", "feeSigma", "range")
_FIVE_AS_STORED = (*_FIVE[:2], "feeSigma", "feeCiphertextValidity", "range")
_HIDDEN: Field = ("hidden?", _ciphertexts)
_AVAILABLE: Field = ("newDecryptableAvailableBalance", _BALANCE)
_SOURCE_AVAILABLE: Field = ("newSourceDecryptableAvailableBalance", _BALANCE)
_SUPPLY: Field = ("newDecryptableSupply", _BALANCE)
_AMOUNT: tuple[Field, ...] = (("amount", u64), ("decimals", u8))
_MINT_SETTINGS: tuple[Field, ...] = (("autoApproveNewAccounts", boolean), ("auditorElGamalPubkey", key_or_none))
_TRANSFER = ("source", "mint", "destination")

CONFIDENTIAL_TRANSFER = {
    0: exact_spec("initializeConfidentialTransferMint", ("mint",), (("authority?", address_or_none), *_MINT_SETTINGS)),
    1: exact_spec("updateConfidentialTransferMint", ("mint", "confidentialTransferMintAuthority"), _MINT_SETTINGS),
    2: exact_spec(
        "configureConfidentialTransferAccount",
        ("account", "mint"),
        (("decryptableZeroBalance", _BALANCE), ("maximumPendingBalanceCreditCounter", u64), _OFFSET),
        minimum=4,
        finish=_one_proof(2, _OWNER),
    ),
    3: Spec("approveConfidentialTransferAccount", ("account", "mint", "confidentialTransferAuditorAuthority")),
    4: exact_spec(
        "emptyConfidentialTransferAccount", ("account",), (_OFFSET,), minimum=3, finish=_one_proof(1, _OWNER)
    ),
    5: exact_spec("depositConfidentialTransfer", ("account", "mint"), _AMOUNT, _OWNER),
    6: exact_spec(
        "withdrawConfidentialTransfer",
        ("account", "mint"),
        (*_AMOUNT, _AVAILABLE, *_offsets("equality", "range")),
        minimum=4,
        finish=_proofs(2, ("equality", "range")),
    ),
    7: exact_spec(
        "confidentialTransfer",
        _TRANSFER,
        (_SOURCE_AVAILABLE, _HIDDEN, *_offsets(*_THREE)),
        minimum=4,
        finish=_proofs(3, _THREE),
    ),
    8: exact_spec(
        "applyPendingConfidentialTransferBalance",
        ("account",),
        (("expectedPendingBalanceCreditCounter", u64), _AVAILABLE),
        _OWNER,
    ),
    9: _owned("enableConfidentialTransferConfidentialCredits"),
    10: _owned("disableConfidentialTransferConfidentialCredits"),
    11: _owned("enableConfidentialTransferNonConfidentialCredits"),
    12: _owned("disableConfidentialTransferNonConfidentialCredits"),
    13: exact_spec(
        "confidentialTransferWithFee",
        _TRANSFER,
        (_SOURCE_AVAILABLE, _HIDDEN, *_offsets(*_FIVE_AS_STORED)),
        minimum=4,
        finish=_proofs(3, _FIVE),
    ),
    14: Spec("configureConfidentialAccountWithRegistry", ("account", "mint", "registry")),
}

CONFIDENTIAL_FEE = {
    0: exact_spec(
        "initializeConfidentialTransferFeeConfig",
        ("mint",),
        (("authority?", address_or_none), ("withdrawWithheldAuthorityElGamalPubkey", _KEY)),
    ),
    1: exact_spec(
        "withdrawWithheldConfidentialTransferTokensFromMint",
        ("mint", "feeRecipient"),
        (_OFFSET, _AVAILABLE),
        minimum=4,
        finish=_one_proof(2, _WITHDRAW),
    ),
    2: exact_spec(
        "withdrawWithheldConfidentialTransferTokensFromAccounts",
        ("mint", "feeRecipient"),
        (("sources", u8), _OFFSET, _AVAILABLE),
        minimum=4,
        finish=_from_accounts,
    ),
    3: Spec("harvestWithheldConfidentialTransferTokensToMint", ("mint",), rest="sourceAccounts"),
    4: _owned("enableConfidentialTransferFeeHarvestToMint"),
    5: _owned("disableConfidentialTransferFeeHarvestToMint"),
}

CONFIDENTIAL_MINT_BURN = {
    0: exact_spec(
        "initializeConfidentialMintBurnMint",
        ("mint",),
        (("supplyElGamalPubkey", _KEY), ("decryptableSupply", _BALANCE)),
    ),
    1: exact_spec(
        "rotateConfidentialMintBurnSupplyElGamalPubkey",
        ("mint",),
        (("newSupplyElGamalPubkey", _KEY), _OFFSET),
        minimum=3,
        finish=_rotated,
    ),
    2: exact_spec("updateConfidentialMintBurnDecryptableSupply", ("mint",), (_SUPPLY,), _OWNER),
    3: exact_spec(
        "confidentialMint",
        ("destination", "mint"),
        (_SUPPLY, _HIDDEN, *_offsets(*_THREE)),
        minimum=3,
        finish=_proofs(2, _THREE),
    ),
    4: exact_spec(
        "confidentialBurn",
        ("destination", "mint"),
        (_AVAILABLE, _HIDDEN, *_offsets(*_THREE)),
        minimum=3,
        finish=_proofs(2, _THREE),
    ),
    5: _owned("applyPendingBurn", "mint"),
}

PERMISSIONED_CONFIDENTIAL_BURN = exact_spec(
    "permissionedConfidentialBurn",
    ("account", "mint"),
    (_AVAILABLE, _HIDDEN, *_offsets(*_THREE)),
    minimum=4,
    finish=_proofs(2, _THREE, authority("authority"), "permissionedBurnAuthority"),
)
