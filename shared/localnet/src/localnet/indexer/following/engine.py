"""Application of blocks in order, with the position stored; a block is applied as a whole or not at all."""

import logging

from localnet.base58 import encode
from localnet.indexer.accounts.tree_accounts import TreeAccount
from localnet.indexer.database.state import Applier
from localnet.indexer.database.store import Store, get_meta, set_meta
from localnet.indexer.database.trees import AccountReader, StateMismatch, add_tree_of_account, find_tree
from localnet.indexer.decoding.parser import UnknownShape, parse_transaction
from localnet.indexer.decoding.source import Block, Transaction

_log = logging.getLogger(__name__)

SLOT = "slot"
"""Last known slot of the chain."""
BLOCK_SLOT = "block slot"
"""Slot of the last block with transactions."""
POSITION = "position"
"""Transactions of that block that were applied."""
HASH = "hash"
"""First bytes of its hash."""
_SHORT_HASH_BYTES = 7  # so that the number fits SQLite's integers


class ChainNotUnderstood(Exception):
    """A transaction does not parse or does not continue the state; the indexer stops before it."""


class Engine:
    """The state in ``store``, derived from blocks. One thread at a time applies blocks; any may read the store."""

    def __init__(self, store: Store, read_account: AccountReader | None = None) -> None:
        self.store = store
        self._read_account: AccountReader = read_account or (lambda _: None)

    @property
    def slot(self) -> int:
        """Slot up to which the chain is indexed."""
        with self.store.read() as connection:
            return get_meta(connection, SLOT)

    @property
    def position(self) -> tuple[int, int]:
        """Slot of the last block with transactions, and how many of them were applied."""
        with self.store.read() as connection:
            return get_meta(connection, BLOCK_SLOT), get_meta(connection, POSITION)

    def continues(self, block: Block | None) -> bool:
        """Return whether the indexed chain has ``block`` in the slot of the last applied block."""
        slot, position = self.position
        if slot == 0:
            return True
        with self.store.read() as connection:
            short_hash = get_meta(connection, HASH)
        return (
            block is not None
            and block.slot == slot
            and short_hash == _short_hash(block)
            and position <= len(block.transactions)
        )

    def register(self, account: TreeAccount) -> None:
        """Insert a tree before its first event; a known one stays unchanged."""
        with self.store.write() as connection:
            if find_tree(connection, account.key) is None:
                add_tree_of_account(connection, account)

    def apply_block(self, block: Block) -> None:
        """Apply the new transactions of a block, which may have grown since the last call; skip an older block.

        Raises ChainNotUnderstood, with nothing of the block applied.
        """
        last_slot, position = self.position
        if block.slot < last_slot:
            return
        done = position if block.slot == last_slot else 0
        if block.slot == last_slot and len(block.transactions) <= done:
            return
        with self.store.write() as connection:
            applier = Applier(connection, self._read_account)
            for number, transaction in enumerate(block.transactions[done:], done):
                self._apply(applier, block, number, transaction)
            set_meta(connection, BLOCK_SLOT, block.slot)
            set_meta(connection, POSITION, len(block.transactions))
            set_meta(connection, HASH, _short_hash(block))
            set_meta(connection, SLOT, max(block.slot, get_meta(connection, SLOT)))

    def advance(self, slot: int) -> None:
        """Record that the chain reached a slot without further transactions."""
        if slot <= self.slot:
            return
        with self.store.write() as connection:
            set_meta(connection, SLOT, max(slot, get_meta(connection, SLOT)))

    def _apply(self, applier: Applier, block: Block, number: int, transaction: Transaction) -> None:
        try:
            events = parse_transaction(transaction, block.slot)
            applier.apply(transaction, events, block.slot, number, block.time)
        except (UnknownShape, StateMismatch) as fault:
            message = f"transaction {encode(transaction.signature)} of slot {block.slot}: {fault}"
            _log.critical("indexing stops at %s", message)
            raise ChainNotUnderstood(message) from fault


def _short_hash(block: Block) -> int:
    return int.from_bytes(block.hash[:_SHORT_HASH_BYTES], "big")
