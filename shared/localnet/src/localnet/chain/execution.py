"""Conversion of the virtual machine's results to the chain's records."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from solders.account import Account
from solders.address_lookup_table_account import ID as LOOKUP_TABLE_PROGRAM
from solders.message import Message, MessageV0, MessageV1
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from solders.transaction_metadata import FailedTransactionMetadata, TransactionMetadata

from localnet.chain.blocks import ExecutedInstruction, JsonError

LOOKUP_TABLE_HEADER = 56
"""Bytes before the addresses in a lookup table account."""
_KEY_BYTES = 32


class TransactionRefused(Exception):
    """A transaction that cannot enter a block: it pays no fee and leaves no trace. ``err`` is Solana's JSON."""

    def __init__(self, err: JsonError, logs: Sequence[str] = ()) -> None:
        super().__init__(json.dumps(err))
        self.err = err
        self.logs = tuple(logs)


@dataclass(frozen=True, slots=True)
class Keys:
    """The accounts of a transaction: static ones, then those loaded from tables."""

    all: tuple[Pubkey, ...]
    loaded_writable: int
    loaded_readonly: int
    writable: tuple[bool, ...]
    """Whether the transaction declares each account writable."""


def resolve_keys(transaction: VersionedTransaction, account: Callable[[Pubkey], Account | None]) -> Keys:
    """Look up all account keys of a transaction; raise TransactionRefused for a missing or too short table."""
    message = transaction.message
    static = tuple(message.account_keys)
    declared = tuple(is_writable(message, index) for index in range(len(static)))
    if not isinstance(message, MessageV0) or not message.address_table_lookups:
        return Keys(static, 0, 0, declared)
    writable: list[Pubkey] = []
    readonly: list[Pubkey] = []
    for lookup in message.address_table_lookups:
        table = account(lookup.account_key)
        if table is None:
            raise TransactionRefused("AddressLookupTableNotFound")
        if table.owner != LOOKUP_TABLE_PROGRAM:
            raise TransactionRefused("InvalidAddressLookupTableOwner")
        data = bytes(table.data)
        for indices, found in ((lookup.writable_indexes, writable), (lookup.readonly_indexes, readonly)):
            for index in indices:
                address = data[LOOKUP_TABLE_HEADER + _KEY_BYTES * index :][:_KEY_BYTES]
                if len(address) != _KEY_BYTES:
                    raise TransactionRefused("InvalidAddressLookupTableIndex")
                found.append(Pubkey(address))
    loaded = (True,) * len(writable) + (False,) * len(readonly)
    return Keys(static + tuple(writable) + tuple(readonly), len(writable), len(readonly), declared + loaded)


def is_writable(message: Message | MessageV0 | MessageV1, index: int) -> bool:
    """Return whether a static account is declared writable."""
    header, count = message.header, len(message.account_keys)
    if index < header.num_required_signatures:
        return index < header.num_required_signatures - header.num_readonly_signed_accounts
    return index < count - header.num_readonly_unsigned_accounts


def executed(
    keys: Keys, transaction: VersionedTransaction, meta: TransactionMetadata
) -> tuple[tuple[ExecutedInstruction, ...], tuple[tuple[ExecutedInstruction, ...], ...]]:
    """Return the outer instructions and, for each of them, the inner ones, with their accounts resolved."""

    def resolved(program: int, accounts: bytes, data: bytes, height: int) -> ExecutedInstruction:
        found = tuple(keys.all[index] for index in accounts)
        return ExecutedInstruction(keys.all[program], found, bytes(data), height, program, bytes(accounts))

    outer = tuple(
        resolved(instruction.program_id_index, bytes(instruction.accounts), instruction.data, 1)
        for instruction in transaction.message.instructions
    )
    inner = []
    for calls in meta.inner_instructions():
        group = []
        for call in calls:
            instruction = call.instruction()
            # A machine before inner heights were recorded would give None; this one always knows.
            height = call.stack_height() or 2
            group.append(resolved(instruction.program_id_index, bytes(instruction.accounts), instruction.data, height))
        inner.append(tuple(group))
    inner += [()] * (len(outer) - len(inner))
    return outer, tuple(inner)


def error_of(result: FailedTransactionMetadata) -> JsonError:
    """Return the error in Solana's JSON form."""
    err: JsonError = json.loads(result.to_json())["err"]
    return err


def return_data_of(meta: TransactionMetadata) -> tuple[Pubkey, bytes] | None:
    """Return program and bytes that a transaction returned, None if it returned nothing."""
    data = meta.return_data()
    return (data.program_id, bytes(data.data)) if data.data else None
