"""What the indexer reads from a chain: blocks in order and accounts as they are now."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Instruction:
    """One executed instruction with its keys resolved; ``depth`` is the stack height, 1 for an outer one."""

    program: bytes
    accounts: tuple[bytes, ...]
    data: bytes
    depth: int = 0


Group = tuple[Instruction, ...]
"""One outer instruction, then its inner instructions in the order of execution."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction with its outcome; ``error`` is the text of a failure, which leaves no trace in the state."""

    signature: bytes
    groups: tuple[Group, ...]
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """The transactions of one slot in their order; ``time`` in Unix seconds, ``hash`` of 32 bytes names the fork."""

    slot: int
    time: int
    hash: bytes
    transactions: tuple[Transaction, ...]


@dataclass(frozen=True, slots=True)
class ChainAccount:
    """An on-chain account."""

    lamports: int
    data: bytes
    owner: bytes
    executable: bool
    rent_epoch: int


class ChainSource(Protocol):
    """A chain that can be read from its first slot; calls may come from any thread."""

    def slot(self) -> int:
        """The slot of the chain now."""

    def blocks(self, first_slot: int) -> Iterator[Block]:
        """The blocks with transactions from ``first_slot`` on, in the order of their slots.

        The last one may still be growing: it is given again, with more transactions, by a later call.
        """

    def block_hash(self, slot: int) -> bytes | None:
        """The hash of the block of a slot, None where the slot has no transactions."""

    def account(self, key: bytes) -> ChainAccount | None:
        """An account as it is now."""

    def program_accounts(self, program: bytes) -> Mapping[bytes, ChainAccount]:
        """All accounts of a program as they are now."""

    def transaction_json(self, signature: bytes) -> Mapping[str, Any] | None:
        """The answer of the node to getTransaction with base64 encoding."""
