"""Input of the indexer: blocks of transactions, with resolved keys and without types of a chain library."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Instruction:
    """One executed instruction with its keys resolved; ``depth`` is the stack height, 1 for an outer one, 0 unknown."""

    program: bytes
    accounts: tuple[bytes, ...]
    data: bytes
    depth: int = 0


Group = tuple[Instruction, ...]
"""One outer instruction, then its inner instructions in the order of execution."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction with its outcome; ``error`` is the text of a failure, which changes no state."""

    signature: bytes
    groups: tuple[Group, ...]
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """The transactions of one slot in their order; ``time`` in seconds since 1970.

    Equal slots with other hashes are on different forks. A block may come again with more transactions.
    """

    slot: int
    time: int
    hash: bytes
    transactions: tuple[Transaction, ...]
