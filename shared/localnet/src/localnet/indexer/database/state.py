"""Application of events to the store, with checked preconditions.

Source: forester/docs/reference/indexer.md, "Applying events".
"""

import logging
import sqlite3
from collections.abc import Sequence
from enum import IntEnum

from localnet.indexer.database.tree_events import apply_tree_event
from localnet.indexer.database.trees import (
    AccountReader,
    StateMismatch,
    Tree,
    add_default_tree,
    add_tree_of_account,
    find_tree,
    find_tree_of_queue,
    save_tree,
)
from localnet.indexer.decoding.events import NEXT, Event, Input, NewAddress, Output, PublicEvent, TreeEvent, TreeRef
from localnet.indexer.decoding.source import Transaction
from localnet.indexer.decoding.tokens import token_data
from localnet.indexer.programs import VOTE, TreeType

_log = logging.getLogger(__name__)


class LinkKind(IntEnum):
    """Role of a key in the transactions that are listed under it."""

    OWNER = 1
    ADDRESS = 2
    TOKEN_OWNER = 3


def u64_bytes(number: int) -> bytes:
    """Return a 64-bit number as the store has it: bytes that sort like numbers."""
    return number.to_bytes(8, "big")


class Applier:
    """Writer of the events of transactions, in the order of the chain.

    ``connection`` is inside a transaction that the caller commits or, after an exception, rolls back.
    """

    def __init__(self, connection: sqlite3.Connection, read_account: AccountReader) -> None:
        self.connection = connection
        self._read_account = read_account

    def apply(self, transaction: Transaction, events: Sequence[Event], slot: int, position: int, time: int) -> None:
        """Apply addresses first, then outputs, then inputs: an input may be an output of the same transaction.

        A tree event that does not fit marks its tree broken; the other trees continue.
        """
        if all(group[0].program == VOTE for group in transaction.groups if group) and transaction.groups:
            return
        self.connection.execute(
            "INSERT INTO transactions VALUES (?, ?, ?, ?, ?, ?)",
            (slot, position, transaction.signature, time, transaction.error, bool(events)),
        )
        for event in events:
            if isinstance(event, PublicEvent):
                _PublicApplier(self, transaction.signature, slot, position, time).apply(event)
            else:
                self._apply_tree_event(event)

    def _apply_tree_event(self, event: TreeEvent) -> None:
        tree = self.tree(event.tree)
        if tree is None:
            raise StateMismatch(f"an event changes the tree {event.tree.hex()}, which is not known")
        if tree.broken:
            return
        self.connection.execute("SAVEPOINT tree_event")
        try:
            apply_tree_event(self.connection, tree, event)
        except StateMismatch as mismatch:
            self.connection.execute("ROLLBACK TO tree_event")
            fresh = self.tree(event.tree) or tree
            fresh.broken = str(mismatch)
            save_tree(self.connection, fresh)
            _log.critical("tree %s stops at sequence %d: %s", event.tree.hex(), fresh.sequence, mismatch)
        else:
            save_tree(self.connection, tree)
        self.connection.execute("RELEASE tree_event")

    def tree(self, key: bytes) -> Tree | None:
        """Return the tree of a key, which is inserted now if its account is on chain."""
        tree = find_tree(self.connection, key)
        if tree is None:
            account = self._read_account(key)
            tree = add_tree_of_account(self.connection, account) if account else None
        return tree

    def place(self, place: TreeRef) -> Tree:
        """Return the tree that an event names; a migration names its queue only."""
        tree = self.tree(place.tree) or find_tree_of_queue(self.connection, place.queue)
        return tree or add_default_tree(self.connection, place.tree, place.tree_type, place.queue)


class _PublicApplier:
    """Applies the public events of one transaction."""

    def __init__(self, applier: Applier, signature: bytes, slot: int, position: int, time: int) -> None:
        self._applier = applier
        self._connection = applier.connection
        self._signature = signature
        self._slot = slot
        self._position = position
        self._time = time

    def apply(self, event: PublicEvent) -> None:
        """Apply addresses first, then outputs, then inputs: an input may be an output of the same transaction."""
        for address in event.addresses:
            self._queue_address(address)
        leaves: dict[bytes, dict[int, bytes]] = {}
        for output in event.outputs:
            tree = self._applier.place(output.place)
            if tree.tree_type is TreeType.STATE_V1:
                leaves.setdefault(tree.key, {})[tree.next_index] = output.hash
                self._append(tree, output)
            else:
                self._queue(tree, output)
        for key, written in leaves.items():
            tree = self._require(key)
            tree.root = tree.nodes(self._connection).write(written)
            save_tree(self._connection, tree)
        for spent in event.inputs:
            self._spend(spent, event.tx_hash)

    def _require(self, key: bytes) -> Tree:
        tree = find_tree(self._connection, key)
        if tree is None:
            raise StateMismatch(f"the tree {key.hex()} is not known")
        return tree

    def _queue_address(self, new: NewAddress) -> None:
        batched = new.queue_index is not None
        tree = self._applier.place(TreeRef(new.tree, new.tree, TreeType.ADDRESS_V2 if batched else TreeType.ADDRESS_V1))
        if tree.batched:
            _expect(tree, "address queue index", tree.address_next, new.queue_index)
        row = (tree.id, tree.address_next, new.address)
        try:
            self._connection.execute("INSERT INTO address_queue VALUES (?, ?, ?)", row)
        except sqlite3.IntegrityError:
            raise StateMismatch(f"the address {new.address.hex()} is queued already") from None
        tree.address_next += 1
        save_tree(self._connection, tree)

    def _append(self, tree: Tree, output: Output) -> None:
        _expect(tree, "leaf index", tree.next_index, output.leaf_index)
        if output.leaf_index != NEXT:
            _expect(tree, "sequence number", tree.sequence + 1, output.sequence)
        self._insert(tree, output, tree.next_index, tree.sequence + 1)
        tree.next_index += 1
        tree.sequence += 1
        save_tree(self._connection, tree)

    def _queue(self, tree: Tree, output: Output) -> None:
        _expect(tree, "leaf index", tree.output_next, output.leaf_index)
        # A leaf that migrated brings its account along.
        moved = 0
        if output.leaf_index == NEXT:
            moved = self._connection.execute(
                "UPDATE accounts SET tree = ?, leaf_index = ?, sequence = NULL WHERE hash = ?",
                (tree.id, tree.output_next, output.hash),
            ).rowcount
        if not moved:
            self._insert(tree, output, tree.output_next, None)
        tree.output_next += 1
        save_tree(self._connection, tree)

    def _insert(self, tree: Tree, output: Output, leaf_index: int, sequence: int | None) -> None:
        account = output.account
        data = account.data if account else None
        cursor = self._connection.execute(
            "INSERT INTO accounts (hash, tree, leaf_index, owner, address, lamports, discriminator, data, data_hash,"
            " slot, sequence) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                output.hash,
                tree.id,
                leaf_index,
                account.owner if account else None,
                account.address if account else None,
                u64_bytes(account.lamports) if account else None,
                data.discriminator if data else None,
                data.data if data else None,
                data.data_hash if data else None,
                self._slot,
                sequence,
            ),
        )
        self._link(LinkKind.OWNER, account.owner if account else None)
        self._link(LinkKind.ADDRESS, account.address if account else None)
        self._link_account(output.hash, closed=False)
        token = token_data(account.owner, data) if account else None
        if token:
            self._connection.execute(
                "INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?)",
                (cursor.lastrowid, output.hash, token.mint, token.owner, u64_bytes(token.amount), token.delegate),
            )
            self._link(LinkKind.TOKEN_OWNER, token.owner)

    def _spend(self, spent: Input, tx_hash: bytes) -> None:
        row = self._connection.execute(
            "SELECT a.id, a.owner, a.address, a.spent, t.key FROM accounts a JOIN trees t ON t.id = a.tree"
            " WHERE a.hash = ?",
            (spent.hash,),
        ).fetchone()
        if row is None or row[3]:
            raise StateMismatch(f"the leaf {spent.hash.hex()} is spent, {'twice' if row else 'but was never created'}")
        number, owner, address, _, key = row
        tree = self._applier.place(spent.place) if spent.place else self._require(key)
        queued: tuple[bytes | None, bytes | None, int] = (None, None, tree.input_next)
        if tree.batched:
            _expect(tree, "nullifier queue index", tree.input_next, spent.queue_index)
            queued = (tx_hash, spent.nullifier, tree.input_next)
        tree.input_next += 1
        save_tree(self._connection, tree)
        self._connection.execute(
            "UPDATE accounts SET spent = 1, tx_hash = ?, nullifier = ?, queue_index = ? WHERE id = ?",
            (*queued, number),
        )
        token_owner = self._connection.execute("SELECT owner FROM tokens WHERE account = ?", (number,)).fetchone()
        if token_owner:
            self._connection.execute("DELETE FROM tokens WHERE account = ?", (number,))
            self._link(LinkKind.TOKEN_OWNER, token_owner[0])
        self._link(LinkKind.OWNER, owner)
        self._link(LinkKind.ADDRESS, address)
        self._link_account(spent.hash, closed=True)

    def _link(self, kind: LinkKind, key: bytes | None) -> None:
        if key is not None:
            self._connection.execute(
                "INSERT OR IGNORE INTO key_links VALUES (?, ?, ?, ?, ?)",
                (int(kind), key, self._slot, self._signature, self._time),
            )

    def _link_account(self, leaf: bytes, *, closed: bool) -> None:
        self._connection.execute(
            "INSERT OR IGNORE INTO account_links VALUES (?, ?, ?, ?)", (leaf, self._slot, self._position, closed)
        )


def _expect(tree: Tree, what: str, expected: int, got: int | None) -> None:
    if got not in (expected, NEXT):
        raise StateMismatch(f"tree {tree.key.hex()}: {what} {got} where {expected} is next")
