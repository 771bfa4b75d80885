"""Recorded blocks and transactions, as readers such as an indexer see them.

Source: shared/localnet/docs/methods.md, "Methods". Slots are integers; a skipped slot has no block. Within a block
transactions are in the order of their execution. Failed transactions are recorded too: they paid their fee and changed
nothing else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from solders.hash import Hash
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from localnet.chain.token_accounts import TokenBalance

JsonError = str | Mapping[str, object]
"""An error as Solana's JSON spells it: a bare variant name, or an object with one member."""


@dataclass(frozen=True, slots=True)
class ExecutedInstruction:
    """One instruction with its indices resolved, outer or inner.

    ``stack_height`` is 1 for an outer instruction, 2 for what it called, and so on. ``program_index`` and
    ``account_indices`` point into the transaction's ``account_keys``.
    """

    program: Pubkey
    accounts: tuple[Pubkey, ...]
    data: bytes
    stack_height: int
    program_index: int
    account_indices: bytes


@dataclass(frozen=True, slots=True)
class RecordedTransaction:
    """One executed transaction. ``err`` is None for success; lamports are integers.

    ``account_keys`` are the static keys, then the writable, then the read-only ones loaded from lookup tables;
    ``loaded_writable`` and ``loaded_readonly`` count the latter two. ``inner_instructions[i]`` are the calls made by
    ``instructions[i]``, in the order of execution, all depths.
    """

    signature: Signature
    slot: int
    block_time: int
    transaction: VersionedTransaction
    account_keys: tuple[Pubkey, ...]
    loaded_writable: int
    loaded_readonly: int
    instructions: tuple[ExecutedInstruction, ...]
    inner_instructions: tuple[tuple[ExecutedInstruction, ...], ...]
    err: JsonError | None
    logs: tuple[str, ...]
    fee: int
    compute_units: int
    pre_balances: tuple[int, ...]
    post_balances: tuple[int, ...]
    return_data: tuple[Pubkey, bytes] | None
    pre_token_balances: tuple[TokenBalance, ...] = ()
    post_token_balances: tuple[TokenBalance, ...] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """One slot with a block; ``block_time`` is in seconds since 1970."""

    slot: int
    parent_slot: int
    block_height: int
    blockhash: Hash
    previous_blockhash: Hash
    block_time: int
    transactions: Sequence[RecordedTransaction]
