"""Instructions → signed transactions that fit the network's limit; no I/O.

Price first, then limit, then work (forester/docs/reference/behaviour.md, "Fees and compute units"). With lookup tables
a transaction is of version 0, else legacy.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from solders.address_lookup_table_account import AddressLookupTableAccount
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import Message, MessageV0
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from forester.errors import ForesterError
from forester.settings import SigningKey

SIZE_LIMIT_BYTES = 1232
"""Maximum bytes of a transaction in the network."""

MAXIMUM_LEGACY = 4
MAXIMUM_WITH_TABLE = 5
"""Maximum work instructions of a transaction without and with lookup tables, as in the reference."""

_SIGNATURE_BYTES = 64


class TransactionTooLarge(ForesterError):
    """A transaction exceeds the limit of the network."""


@dataclass(frozen=True)
class Budget:
    """Limits of a transaction: compute units, and their price in microlamports (None: no price is set)."""

    unit_limit: int
    unit_price: int | None = None

    def instructions(self) -> list[Instruction]:
        """Return the instructions that set the limits, in the order of the programs."""
        price = [] if self.unit_price is None else [set_compute_unit_price(self.unit_price)]
        return [*price, set_compute_unit_limit(self.unit_limit)]


@dataclass(frozen=True)
class Built:
    """A signed transaction as it is sent, and its signature."""

    data: bytes
    signature: Signature


def build(
    work: Sequence[Instruction],
    payer: SigningKey,
    blockhash: Hash,
    budget: Budget,
    tables: Sequence[AddressLookupTableAccount] = (),
    *,
    signers: Sequence[Keypair] = (),
) -> Built:
    """Compile and sign; ``signers`` sign in addition to the payer. TransactionTooLarge if it does not fit."""
    message = _message(work, payer.pubkey, blockhash, budget, tables)
    size = _size(message)
    if size > SIZE_LIMIT_BYTES:
        raise TransactionTooLarge(
            f"a transaction of {len(work)} instructions has {size} bytes, over {SIZE_LIMIT_BYTES}"
        )
    transaction = VersionedTransaction(message, [payer.keypair, *signers])
    return Built(bytes(transaction), transaction.signatures[0])


def fitting(
    work: Sequence[Instruction],
    payer: Pubkey,
    budget: Budget,
    tables: Sequence[AddressLookupTableAccount] = (),
    *,
    maximum: int | None = None,
) -> int:
    """Return how many of the first instructions fit one transaction together, ``maximum`` at most.

    ``maximum`` None means the reference's bounds. TransactionTooLarge if not even the first one fits.
    """
    bound = maximum if maximum is not None else MAXIMUM_WITH_TABLE if tables else MAXIMUM_LEGACY
    for count in range(min(bound, len(work)), 0, -1):
        if _size(_message(work[:count], payer, Hash.default(), budget, tables)) <= SIZE_LIMIT_BYTES:
            return count
    if work:
        raise TransactionTooLarge(f"an instruction alone exceeds {SIZE_LIMIT_BYTES} bytes")
    return 0


def _message(
    work: Sequence[Instruction],
    payer: Pubkey,
    blockhash: Hash,
    budget: Budget,
    tables: Sequence[AddressLookupTableAccount],
) -> Message | MessageV0:
    instructions = [*budget.instructions(), *work]
    if tables:
        return MessageV0.try_compile(payer, instructions, list(tables), blockhash)
    return Message.new_with_blockhash(instructions, payer, blockhash)


def _size(message: Message | MessageV0) -> int:
    """Return the length of the signed transaction; ``bytes`` omits the first byte of a version 0 message."""
    versioned = int(isinstance(message, MessageV0))
    return 1 + _SIGNATURE_BYTES * message.header.num_required_signatures + versioned + len(bytes(message))
