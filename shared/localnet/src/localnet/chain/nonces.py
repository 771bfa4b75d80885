"""Durable nonces: transactions that name the value in a nonce account instead of a recent blockhash.

Source: shared/localnet/docs/chain.md, "Durable nonces".
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from solders.account import Account
from solders.pubkey import Pubkey
from solders.system_program import ID as SYSTEM_PROGRAM
from solders.transaction import VersionedTransaction

from localnet.chain.execution import is_writable

NONCE_BYTES = 80
ADVANCE_NONCE = (4).to_bytes(4, "little")
_INITIALIZED = (1).to_bytes(4, "little")
AUTHORITY, VALUE = slice(8, 40), slice(40, 72)
"""Positions in a nonce account, after version and state."""


@dataclass(frozen=True, slots=True)
class DurableNonce:
    """A nonce account that a transaction uses, and its content after that transaction."""

    account: Pubkey
    advanced: Account


def durable_nonce_of(
    transaction: VersionedTransaction, account: Callable[[Pubkey], Account | None]
) -> DurableNonce | None:
    """Return the nonce whose present value a transaction names and which its first instruction advances."""
    message = transaction.message
    first = message.instructions[0] if message.instructions else None
    if first is None or message.account_keys[first.program_id_index] != SYSTEM_PROGRAM:
        return None
    indices = bytes(first.accounts)
    static = len(message.account_keys)
    if bytes(first.data) != ADVANCE_NONCE or len(indices) < 3 or max(indices) >= static:
        return None
    key = message.account_keys[indices[0]]
    stored = account(key)
    if stored is None or stored.owner != SYSTEM_PROGRAM or not is_writable(message, indices[0]):
        return None
    data = bytes(stored.data)
    value, authority = bytes(message.recent_blockhash), Pubkey(data[AUTHORITY]) if len(data) == NONCE_BYTES else None
    signers = message.account_keys[: message.header.num_required_signatures]
    named = [message.account_keys[index] for index in indices]
    if data[4:8] != _INITIALIZED or data[VALUE] != value or authority not in signers or authority not in named:
        return None
    # The machine derives the next value from the blockhash that the transaction names.
    following = hashlib.sha256(b"DURABLE_NONCE" + value).digest()
    advanced = data[: VALUE.start] + following + data[VALUE.stop :]
    return DurableNonce(key, Account(stored.lamports, advanced, stored.owner, stored.executable, stored.rent_epoch))
