"""Accounts, transactions and blocks as JSON, in the encoding that the caller requests."""

import base64
from collections.abc import Callable, Sequence
from typing import Any

import zstandard
from solders.account import Account
from solders.message import Message, MessageV0
from solders.pubkey import Pubkey

from localnet import base58
from localnet.chain.blocks import ExecutedInstruction, JsonError, RecordedTransaction
from localnet.chain.execution import is_writable
from localnet.chain.network import MAX_TRANSACTION_BYTES, Network
from localnet.chain.token_accounts import TOKEN_PROGRAMS, TokenBalance
from localnet.json_rpc import INVALID_REQUEST, RpcError
from localnet.rpc.errors import UNSUPPORTED_TRANSACTION_VERSION, invalid
from localnet.rpc.params import Config
from localnet.rpc.parsed.accounts import parse_account
from localnet.rpc.parsed.amounts import Display
from localnet.rpc.parsed.instructions import parse_instruction
from localnet.rpc.parsed.token_accounts import mint_display

Json = dict[str, Any]

ACCOUNT_ENCODINGS = ("binary", "base58", "base64", "base64+zstd", "jsonParsed")
TRANSACTION_ENCODINGS = ("binary", "base58", "base64", "json", "jsonParsed")
MAX_BASE58_BYTES = 128
RENT_EXEMPT = (1 << 64) - 1
"""Epoch at which accounts pay rent next, for those that never do."""


def decode_wire(text: str, encoding: str) -> bytes:
    """Return the bytes of a transaction or message that a caller sent in base58 or base64."""
    longest = 1683 if encoding == "base58" else 1644
    if len(text) > longest:
        raise invalid(
            f"{encoding} encoded solana_transaction::versioned::VersionedTransaction too large: "
            f"{len(text)} bytes (max: encoded/raw {longest}/{MAX_TRANSACTION_BYTES})"
        )
    try:
        raw = base58.decode(text) if encoding == "base58" else base64.b64decode(text, validate=True)
    except ValueError as error:
        raise invalid(f"invalid {encoding} encoding: {error}") from error
    if len(raw) > MAX_TRANSACTION_BYTES:
        raise invalid(
            "decoded solana_transaction::versioned::VersionedTransaction too large: "
            f"{len(raw)} bytes (max: {MAX_TRANSACTION_BYTES} bytes)"
        )
    return raw


def data_slice(config: Config) -> tuple[int, int] | None:
    """Return the ``dataSlice`` of a configuration as offset and length."""
    value = config.members.get("dataSlice")
    if value is None:
        return None
    if not isinstance(value, dict):
        raise invalid("Invalid params: dataSlice is an object with offset and length.")
    part = Config(value)
    offset, length = part.number("offset"), part.number("length")
    if offset is None or length is None:
        raise invalid("Invalid params: dataSlice needs offset and length.")
    return offset, length


def encode_account(network: Network, account: Account, encoding: str, part: tuple[int, int] | None = None) -> Json:
    """Encode an account; under ``jsonParsed``, base64 for a program without a parser."""
    data = bytes(account.data)
    return {
        "lamports": account.lamports,
        "data": (encoding == "jsonParsed" and parse_account(account, displays(network)))
        or _encode_data(data if part is None else data[part[0] : part[0] + part[1]], encoding),
        "owner": str(account.owner),
        "executable": account.executable,
        # LiteSVM has 0 where clusters have the number of accounts that pay no rent.
        "rentEpoch": account.rent_epoch or (RENT_EXEMPT if account.lamports else 0),
        "space": len(data),
    }


def displays(network: Network) -> Callable[[Pubkey], Display | None]:
    """Return a function from a mint to the rules by which it displays amounts."""

    def display(mint: Pubkey) -> Display | None:
        account = network.account(mint)
        if account is None or account.owner not in TOKEN_PROGRAMS:
            return None
        return mint_display(bytes(account.data), network.block_time(network.slot))

    return display


def _encode_data(data: bytes, encoding: str) -> str | list[str]:
    if encoding in ("binary", "base58"):
        if len(data) > MAX_BASE58_BYTES:
            message = "Encoded binary (base 58) data should be less than 128 bytes, please use Base64 encoding."
            raise RpcError(INVALID_REQUEST, message)
        text = base58.encode(data)
        return text if encoding == "binary" else [text, "base58"]
    if encoding == "base64+zstd":
        return [base64.b64encode(zstandard.ZstdCompressor().compress(data)).decode(), encoding]
    return [base64.b64encode(data).decode(), "base64"]


def encode_instruction(instruction: ExecutedInstruction, *, parsed: bool) -> Json:
    """Encode an instruction by indices, or parsed; by addresses for a program without a parser."""
    if parsed:
        program, accounts = str(instruction.program), list(map(str, instruction.accounts))
        content = parse_instruction(program, instruction.data, accounts) or {
            "programId": program,
            "accounts": accounts,
            "data": base58.encode(instruction.data),
        }
        return content | {"stackHeight": instruction.stack_height}
    return {
        "programIdIndex": instruction.program_index,
        "accounts": list(instruction.account_indices),
        "data": base58.encode(instruction.data),
        "stackHeight": instruction.stack_height,
    }


def encode_inner(groups: Sequence[Sequence[ExecutedInstruction]], *, parsed: bool) -> list[Json]:
    """Encode the inner instructions of each outer instruction that has any."""
    return [
        {"index": index, "instructions": [encode_instruction(call, parsed=parsed) for call in calls]}
        for index, calls in enumerate(groups)
        if calls
    ]


def encode_return_data(data: tuple[Pubkey, bytes] | None) -> Json | None:
    """Encode the data that a transaction returned."""
    return data and {"programId": str(data[0]), "data": [base64.b64encode(data[1]).decode(), "base64"]}


def encode_meta(done: RecordedTransaction, *, parsed: bool) -> Json:
    """Encode the ``meta`` member: the effects of the execution."""
    static = len(done.account_keys) - done.loaded_writable - done.loaded_readonly
    loaded = list(map(str, done.account_keys[static:]))
    meta: Json = {
        "err": done.err,
        "status": status_member(done.err),
        "fee": done.fee,
        "preBalances": done.pre_balances,
        "postBalances": done.post_balances,
        "innerInstructions": encode_inner(done.inner_instructions, parsed=parsed),
        "logMessages": done.logs,
        "preTokenBalances": list(map(_token_balance, done.pre_token_balances)),
        "postTokenBalances": list(map(_token_balance, done.post_token_balances)),
        "rewards": [],
        "computeUnitsConsumed": done.compute_units,
    }
    if not parsed:
        meta["loadedAddresses"] = {
            "writable": loaded[: done.loaded_writable],
            "readonly": loaded[done.loaded_writable :],
        }
    if done.return_data is not None:
        meta["returnData"] = encode_return_data(done.return_data)
    return meta


def _token_balance(balance: TokenBalance) -> Json:
    return {
        "accountIndex": balance.account_index,
        "mint": str(balance.mint),
        "uiTokenAmount": Display(balance.decimals).amount(balance.amount),
        "owner": str(balance.owner),
        "programId": str(balance.program),
    }


def status_member(err: JsonError | None) -> Json:
    """Encode success or failure as older clients expect it."""
    return {"Ok": None} if err is None else {"Err": err}


def encode_transaction(done: RecordedTransaction, encoding: str) -> Any:
    """Encode the ``transaction`` member, in one of ``TRANSACTION_ENCODINGS``."""
    raw = bytes(done.transaction)
    if encoding == "binary":
        return base58.encode(raw)
    if encoding == "base58":
        return [base58.encode(raw), encoding]
    if encoding == "base64":
        return [base64.b64encode(raw).decode(), encoding]
    parsed = encoding == "jsonParsed"
    message = done.transaction.message
    body: Json = {
        "accountKeys": _parsed_keys(done) if parsed else list(map(str, message.account_keys)),
        "recentBlockhash": str(message.recent_blockhash),
        "instructions": [encode_instruction(entry, parsed=parsed) for entry in done.instructions],
    }
    if not parsed:
        header = message.header
        body["header"] = {
            "numRequiredSignatures": header.num_required_signatures,
            "numReadonlySignedAccounts": header.num_readonly_signed_accounts,
            "numReadonlyUnsignedAccounts": header.num_readonly_unsigned_accounts,
        }
    if isinstance(message, MessageV0):
        body["addressTableLookups"] = [
            {
                "accountKey": str(lookup.account_key),
                "writableIndexes": list(lookup.writable_indexes),
                "readonlyIndexes": list(lookup.readonly_indexes),
            }
            for lookup in message.address_table_lookups
        ]
    return {"signatures": list(map(str, done.transaction.signatures)), "message": body}


def _parsed_keys(done: RecordedTransaction) -> list[Json]:
    message = done.transaction.message
    static = len(message.account_keys)
    writable_until = static + done.loaded_writable
    return [
        {
            "pubkey": str(key),
            "signer": index < message.header.num_required_signatures,
            "writable": is_writable(message, index) if index < static else index < writable_until,
            "source": "transaction" if index < static else "lookupTable",
        }
        for index, key in enumerate(done.account_keys)
    ]


def version_members(done: RecordedTransaction, newest: int | None) -> Json:
    """Return the ``version`` member if the caller supports versions; raise RpcError for an unsupported version."""
    legacy = isinstance(done.transaction.message, Message)
    if newest is None:
        if legacy:
            return {}
        message = (
            "Transaction version (0) is not supported by the requesting client. Please try the request again with the "
            'following configuration parameter: "maxSupportedTransactionVersion": 0'
        )
        raise RpcError(UNSUPPORTED_TRANSACTION_VERSION, message)
    return {"version": "legacy" if legacy else 0}


def encode_entry(done: RecordedTransaction, config: Config, encoding: str) -> Json:
    """Encode transaction, meta and version, as blocks list them."""
    return {
        "transaction": encode_transaction(done, encoding),
        "meta": encode_meta(done, parsed=encoding == "jsonParsed"),
        **version_members(done, config.number("maxSupportedTransactionVersion")),
    }
