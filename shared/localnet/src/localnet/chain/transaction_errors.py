"""Errors of transactions in the words of a node."""

from collections.abc import Mapping

from localnet.chain.blocks import JsonError

_WORDS = {
    "AccountInUse": "Account in use",
    "AccountLoadedTwice": "Account loaded twice",
    "AccountNotFound": "Attempt to debit an account but found no record of a prior credit.",
    "ProgramAccountNotFound": "Attempt to load a program that does not exist",
    "InsufficientFundsForFee": "Insufficient funds for fee",
    "InvalidAccountForFee": "This account may not be used to pay transaction fees",
    "AlreadyProcessed": "This transaction has already been processed",
    "BlockhashNotFound": "Blockhash not found",
    "MissingSignatureForFee": "Transaction requires a fee but has no signature present",
    "InvalidAccountIndex": "Transaction contains an invalid account reference",
    "SignatureFailure": "Transaction did not pass signature verification",
    "InvalidProgramForExecution": "This program may not be used for executing instructions",
    "SanitizeFailure": "Transaction failed to sanitize accounts offsets correctly",
    "TooManyAccountLocks": "Transaction locked too many accounts",
    "AddressLookupTableNotFound": "Transaction loads an address table account that doesn't exist",
    "InvalidAddressLookupTableOwner": "Transaction loads an address table account with an invalid owner",
    "InvalidAddressLookupTableIndex": "Transaction address table lookup uses an invalid index",
}


def describe(err: JsonError) -> str:
    """Return the sentence that nodes print for a transaction error."""
    if isinstance(err, str):
        return _WORDS.get(err, err)
    name, detail = next(iter(err.items()))
    if name == "InstructionError" and isinstance(detail, list):
        return f"Error processing Instruction {detail[0]}: {_describe_instruction(detail[1])}"
    if name == "InsufficientFundsForRent" and isinstance(detail, Mapping):
        index = detail["account_index"]
        return f"Transaction results in an account ({index}) with insufficient funds for rent"
    return f"{name}: {detail}"


def _describe_instruction(err: object) -> str:
    if isinstance(err, Mapping) and "Custom" in err:
        return f"custom program error: {err['Custom']:#x}"
    return str(err)
