"""Sent transactions with unknown outcome, so that a restart queries them before it sends again."""

import time
from dataclasses import dataclass
from functools import cached_property

from solders.signature import Signature
from solders.transaction import VersionedTransaction

from forester.journal.database import JournalStore

LONGEST_KEPT_S = 86_400.0
"""After this long no transaction can land, whatever its height: a node may have been wrong about it, or the chain of a
development cluster may have begun again."""


@dataclass(frozen=True)
class SentTransaction:
    """A signature in base58, its purpose, and the block height after which it cannot land any more.

    ``subject`` is the tree or account that it changes, ``signed`` the transaction as it is sent, empty if an
    older release stored it.
    """

    signature: str
    purpose: str
    subject: bytes
    last_valid_block_height: int
    signed: bytes = b""

    @cached_property
    def is_readable(self) -> bool:
        """True if the outcome can be queried: an entry of a damaged journal may contain anything."""
        try:
            signature = Signature.from_string(self.signature)
            matches = not self.signed or VersionedTransaction.from_bytes(self.signed).signatures[0] == signature
        except (TypeError, ValueError, IndexError):
            return False
        return matches and isinstance(self.last_valid_block_height, int)


class SignatureStore(JournalStore):
    """The transactions in a journal."""

    async def add(self, sent: SentTransaction) -> None:
        """Store a transaction, before it is sent."""
        row = (sent.signature, sent.purpose, sent.subject, sent.last_valid_block_height, time.time(), sent.signed)
        await self._journal.change("INSERT OR IGNORE INTO signatures VALUES (?, ?, ?, ?, ?, ?)", row)

    async def pending(self) -> list[SentTransaction]:
        """Return the transactions with unknown outcome, oldest first."""
        query = "SELECT signature, purpose, subject, last_valid_block_height, signed FROM signatures ORDER BY sent_at"
        return [SentTransaction(*row) for row in await self._journal.fetch(query)]

    async def settle(self, signature: str) -> None:
        """Forget a transaction: it was confirmed, or it failed."""
        await self._journal.change("DELETE FROM signatures WHERE signature = ?", (signature,))

    async def expire(self, block_height: int, *, age_s: float) -> int:
        """Forget transactions that cannot land any more and are older than ``age_s``, and return their number.

        The height comes from a node, the age does not. Those older than LONGEST_KEPT_S are forgotten at any height.
        """
        statement = "DELETE FROM signatures WHERE (last_valid_block_height < ? AND sent_at < ?) OR sent_at < ?"
        now = time.time()
        return await self._journal.change(statement, (block_height, now - age_s, now - LONGEST_KEPT_S))
