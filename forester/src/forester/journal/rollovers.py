"""The keys of accounts that a rollover is about to create, so that a restart continues with the same accounts.

A key has no power over its account once that is created; before that, its holder could only create the account.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from solders.keypair import Keypair
from solders.pubkey import Pubkey

from forester.journal.database import JournalError, JournalStore
from forester.settings import SigningKey

_KEY_BYTES = 64


@dataclass(frozen=True)
class BegunRollover:
    """Keys of the accounts that replace those of ``tree``; queue and CPI context if the kind has them."""

    tree: bytes
    new_tree: SigningKey
    new_queue: SigningKey | None = None
    cpi_context: SigningKey | None = None

    @property
    def keys(self) -> tuple[SigningKey, ...]:
        """All keys: tree, queue, CPI context."""
        return tuple(key for key in (self.new_tree, self.new_queue, self.cpi_context) if key is not None)


class KeysUnreadable(JournalError):
    """The keys of a rollover cannot be decoded; ``addresses`` are those of its accounts, as far as they are known."""

    def __init__(self, addresses: Sequence[Pubkey]) -> None:
        super().__init__()
        self.addresses = tuple(addresses)


class RolloverStore(JournalStore):
    """The rollovers in a journal, at most one for each tree."""

    async def begin(self, rollover: BegunRollover) -> BegunRollover:
        """Store the keys and return those in effect: an earlier rollover of the same tree stays."""
        secrets = (_secret(rollover.new_tree), _secret(rollover.new_queue), _secret(rollover.cpi_context))
        row = (rollover.tree, *secrets, time.time())
        added = await self._journal.change("INSERT OR IGNORE INTO rollovers VALUES (?, ?, ?, ?, ?)", row)
        return rollover if added else await self.of_tree(rollover.tree) or rollover

    async def of_tree(self, tree: bytes) -> BegunRollover | None:
        """Return the begun rollover of a tree, None if there is none; raises KeysUnreadable."""
        query = "SELECT new_tree, new_queue, cpi_context FROM rollovers WHERE tree = ?"
        for secrets in await self._journal.fetch(query, (tree,)):
            try:
                new_tree, new_queue, cpi_context = (None if secret is None else _key(secret) for secret in secrets)
            except (TypeError, ValueError):
                raise KeysUnreadable([address for secret in secrets for address in _addresses(secret)]) from None
            if new_tree is None:
                raise KeysUnreadable([])
            return BegunRollover(tree, new_tree, new_queue, cpi_context)
        return None

    async def trees(self) -> list[bytes]:
        """Return the trees with a begun rollover."""
        return [tree for (tree,) in await self._journal.fetch("SELECT tree FROM rollovers ORDER BY begun_at")]

    async def forget(self, tree: bytes) -> None:
        """Drop the keys: the tree has a successor, ours or another forester's."""
        await self._journal.change("DELETE FROM rollovers WHERE tree = ?", (tree,))


def _secret(key: SigningKey | None) -> bytes | None:
    return bytes(key.keypair) if key is not None else None


def _key(secret: bytes) -> SigningKey:
    return SigningKey(Keypair.from_bytes(secret))


def _addresses(secret: object) -> set[Pubkey]:
    """Return the addresses of both halves of a key, which differ if one of them is damaged."""
    if not isinstance(secret, bytes) or len(secret) != _KEY_BYTES:
        return set()
    half = _KEY_BYTES // 2
    return {Keypair.from_seed(secret[:half]).pubkey(), Pubkey(secret[half:])}
