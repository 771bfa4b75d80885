"""The SQLite file of the indexer: one writer, many readers with one snapshot each.

Source: forester/docs/reference/indexer.md, "Store".
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

# Numbers of up to 64 bits, which SQLite's integers do not hold, are 8 bytes, big-endian: lamports, amounts.
# An account is queued while its leaf index is not below the next index of its V2 tree, and nullified in the tree when
# its queue index is below the next nullifier of the tree; neither is stored. In V1 trees, whose queues have no order,
# the queue index only counts, and is there while the nullifier waits; so is the row of a waiting address.
_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE trees (
    id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, type INTEGER NOT NULL, queue BLOB NOT NULL,
    height INTEGER NOT NULL, root_capacity INTEGER NOT NULL, sequence INTEGER NOT NULL, next_index INTEGER NOT NULL,
    root BLOB NOT NULL, nullifier_next INTEGER NOT NULL DEFAULT 0, output_next INTEGER NOT NULL DEFAULT 0,
    input_next INTEGER NOT NULL DEFAULT 0, address_next INTEGER NOT NULL DEFAULT 0, broken TEXT
);
CREATE INDEX trees_by_queue ON trees (queue);
CREATE TABLE nodes (tree INTEGER, number INTEGER, hash BLOB NOT NULL, PRIMARY KEY (tree, number)) WITHOUT ROWID;
CREATE TABLE accounts (
    id INTEGER PRIMARY KEY, hash BLOB NOT NULL, tree INTEGER NOT NULL, leaf_index INTEGER NOT NULL,
    owner BLOB, address BLOB, lamports BLOB, discriminator BLOB, data BLOB, data_hash BLOB,
    slot INTEGER NOT NULL, sequence INTEGER, spent INTEGER NOT NULL DEFAULT 0,
    tx_hash BLOB, nullifier BLOB, queue_index INTEGER
);
CREATE UNIQUE INDEX accounts_by_hash ON accounts (hash);
CREATE UNIQUE INDEX accounts_by_leaf ON accounts (tree, leaf_index);
CREATE UNIQUE INDEX accounts_by_queue_index ON accounts (tree, queue_index) WHERE queue_index IS NOT NULL;
CREATE INDEX accounts_by_owner ON accounts (owner, leaf_index, hash) WHERE NOT spent AND owner IS NOT NULL;
CREATE INDEX accounts_by_address ON accounts (address) WHERE NOT spent AND address IS NOT NULL;
CREATE TABLE tokens (
    account INTEGER PRIMARY KEY, hash BLOB NOT NULL, mint BLOB NOT NULL, owner BLOB NOT NULL, amount BLOB NOT NULL,
    delegate BLOB
);
CREATE INDEX tokens_by_owner ON tokens (owner, mint, hash);
CREATE INDEX tokens_by_delegate ON tokens (delegate, mint, hash) WHERE delegate IS NOT NULL;
CREATE INDEX tokens_by_mint ON tokens (mint);
CREATE TABLE elements (
    tree INTEGER, value BLOB, leaf_index INTEGER NOT NULL, next_index INTEGER NOT NULL, next_value BLOB NOT NULL,
    PRIMARY KEY (tree, value)
) WITHOUT ROWID;
CREATE TABLE address_queue (
    tree INTEGER, queue_index INTEGER, address BLOB NOT NULL, PRIMARY KEY (tree, queue_index)
) WITHOUT ROWID;
CREATE UNIQUE INDEX address_queue_by_address ON address_queue (tree, address);
CREATE TABLE transactions (
    slot INTEGER, position INTEGER, signature BLOB NOT NULL UNIQUE, time INTEGER NOT NULL, error TEXT,
    compression INTEGER NOT NULL, PRIMARY KEY (slot, position)
) WITHOUT ROWID;
CREATE INDEX transactions_newest ON transactions (slot, signature);
CREATE TABLE account_links (
    account BLOB, slot INTEGER, position INTEGER, closed INTEGER, PRIMARY KEY (account, slot, position, closed)
) WITHOUT ROWID;
CREATE INDEX account_links_by_transaction ON account_links (slot, position);
CREATE TABLE key_links (
    kind INTEGER, key BLOB, slot INTEGER, signature BLOB, time INTEGER NOT NULL,
    PRIMARY KEY (kind, key, slot, signature)
) WITHOUT ROWID;
"""

SCHEMA_VERSION = 2
_CACHE_KIB = 65536
_BUSY_SECONDS = 60.0


class Store:
    """A database at ``path``, created or opened; one of another schema is emptied.

    Finished writes survive the process, and a loss of power if ``durable``. Writers wait for each other. Readers see
    the writes that were finished when their block began.
    """

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        self.path = path
        self._write_lock = Lock()
        self._pool_lock = Lock()
        self._idle: list[sqlite3.Connection] = []
        self._writer = self._connect()
        self._writer.execute(f"PRAGMA synchronous = {'NORMAL' if durable else 'OFF'}")
        self._writer.execute("PRAGMA journal_mode = WAL")
        self._writer.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        (version,) = self._writer.execute("PRAGMA user_version").fetchone()
        if version != SCHEMA_VERSION:
            self.wipe()

    def wipe(self) -> None:
        """Empty the database: nothing is indexed."""
        with self.write() as connection:
            names = connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            ).fetchall()
            for (name,) in names:
                connection.execute(f"DROP TABLE {name}")
            for statement in filter(str.strip, _SCHEMA.split(";")):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction for the block: all of its writes are stored, or none; other writers wait."""
        with self._write_lock:
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
            except BaseException:
                self._writer.execute("ROLLBACK")
                raise
            self._writer.execute("COMMIT")

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Read one moment; several threads may do so at once."""
        with self._pool_lock:
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = self._connect()
            connection.execute("PRAGMA query_only = ON")
        connection.execute("BEGIN")
        try:
            yield connection
        finally:
            connection.execute("ROLLBACK")
            with self._pool_lock:
                self._idle.append(connection)

    def close(self) -> None:
        """Close the file; no block may be running."""
        for connection in [*self._idle, self._writer]:
            connection.close()
        self._idle.clear()

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)


def get_meta(connection: sqlite3.Connection, name: str, default: int = 0) -> int:
    """Return a number stored under a name."""
    row = connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    return default if row is None else int(row[0])


def set_meta(connection: sqlite3.Connection, name: str, value: int) -> None:
    """Store a number under a name."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))
