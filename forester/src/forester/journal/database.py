"""The forester's durable store: one SQLite file, used by one process in one thread.

A change is on disk when its call returns: transactions are written ahead and synchronised, so that neither a killed
process nor a lost machine loses one or leaves half of it. A lock file next to it excludes a second forester; the
kernel releases it when its holder dies.

It contains keys of accounts that are about to be created, so only its owner may read it.
"""

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self, TypeVar

from forester.errors import ForesterError
from shared.process.file_lock import lock
from shared.process.logs import get_logger

_log = get_logger(__name__)
_T = TypeVar("_T")
_BUSY_S = 10.0
_FAILURES = (sqlite3.Error, UnicodeDecodeError)
"""Errors of SQLite; its message about a damaged schema may be no text."""

_MIGRATIONS = (
    """
    CREATE TABLE proofs (
        tree BLOB NOT NULL,
        sequence INTEGER NOT NULL,
        circuit TEXT NOT NULL,
        old_root BLOB NOT NULL,
        new_root BLOB NOT NULL,
        start_index INTEGER NOT NULL,
        elements INTEGER NOT NULL,
        proof BLOB NOT NULL,
        made_at REAL NOT NULL,
        PRIMARY KEY (tree, sequence, circuit, old_root, new_root)
    ) WITHOUT ROWID;
    CREATE TABLE signatures (
        signature TEXT PRIMARY KEY,
        purpose TEXT NOT NULL,
        subject BLOB NOT NULL,
        last_valid_block_height INTEGER NOT NULL,
        sent_at REAL NOT NULL
    ) WITHOUT ROWID;
    """,
    """
    CREATE TABLE rollovers (
        tree BLOB PRIMARY KEY,
        new_tree BLOB NOT NULL,
        new_queue BLOB,
        cpi_context BLOB,
        begun_at REAL NOT NULL
    ) WITHOUT ROWID;
    """,
    "ALTER TABLE signatures ADD COLUMN signed BLOB NOT NULL DEFAULT x''",
    "CREATE TABLE spending (minute INTEGER PRIMARY KEY, lamports INTEGER NOT NULL)",
    """
    CREATE TABLE compressible_accounts (
        address BLOB PRIMARY KEY,
        ready_slot INTEGER NOT NULL,
        reward INTEGER NOT NULL,
        seen_slot INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX compressible_accounts_by_slot ON compressible_accounts (ready_slot);
    CREATE TABLE compressible_scans (slot INTEGER NOT NULL, finished_at REAL NOT NULL);
    """,
    """
    ALTER TABLE spending RENAME TO spending_of_all;
    CREATE TABLE spending (
        minute INTEGER NOT NULL,
        purpose TEXT NOT NULL,
        lamports INTEGER NOT NULL,
        PRIMARY KEY (minute, purpose)
    ) WITHOUT ROWID;
    INSERT INTO spending SELECT minute, 'unknown', lamports FROM spending_of_all;
    DROP TABLE spending_of_all;
    CREATE TABLE samples (
        minute INTEGER PRIMARY KEY,
        backlog INTEGER,
        proofs INTEGER NOT NULL,
        elements INTEGER NOT NULL,
        lamports INTEGER
    );
    """,
    """
    DROP TABLE compressible_accounts;
    DROP TABLE compressible_scans;
    CREATE TABLE compressible_accounts (
        address BLOB PRIMARY KEY,
        kind INTEGER NOT NULL,
        ready_slot INTEGER NOT NULL,
        reward INTEGER NOT NULL,
        seen_slot INTEGER NOT NULL,
        claimed_epoch INTEGER NOT NULL,
        rent INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX compressible_accounts_by_slot ON compressible_accounts (ready_slot);
    CREATE TABLE compressible_scans (kind INTEGER PRIMARY KEY, slot INTEGER NOT NULL, finished_at REAL NOT NULL);
    """,
    """
    DROP INDEX compressible_accounts_by_slot;
    CREATE INDEX compressible_accounts_by_kind ON compressible_accounts (kind, ready_slot);
    """,
)
"""Each entry raises the schema by one version; entries are never changed once released."""


class JournalError(ForesterError, exit_code=78):
    """The journal cannot be used."""


class JournalLocked(JournalError):
    """Another process uses the journal."""


class JournalNewer(JournalError, exit_code=65):
    """The journal was written by a newer forester."""


class Journal:
    """An open journal; the stores do their work in its ``run``. Use ``open`` and ``close``."""

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: int, executor: ThreadPoolExecutor) -> None:
        self.path = path
        self._connection = connection
        self._lock = lock
        self._executor = executor

    @classmethod
    async def open(cls, path: Path) -> Self:
        """Open or create the journal at ``path``; raises JournalLocked, JournalNewer and JournalError."""
        executor = ThreadPoolExecutor(1, thread_name_prefix="journal")
        try:
            return await asyncio.get_running_loop().run_in_executor(executor, cls._open, path, executor)
        except BaseException:
            executor.shutdown(wait=False)
            raise

    @classmethod
    def _open(cls, path: Path, executor: ThreadPoolExecutor) -> Self:
        with _failures_explained(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = _open_lock_file(path, os.O_CREAT)
            try:
                _keep_private(path)
                connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
                # A damaged text must not hide the other rows of a query.
                connection.text_factory = lambda text: text.decode("utf-8", "replace")
                try:
                    _prepare(connection, path)
                except BaseException:
                    connection.close()
                    raise
            except BaseException:
                os.close(lock)
                raise
        return cls(path, connection, lock, executor)

    async def run(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run work as one transaction and return its result; JournalError if it is not on disk.

        A caller that is cancelled may find the work done or not, never half of it.
        """
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._transaction, work)

    async def fetch(self, query: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Any]:
        """Return the rows of a query; raises JournalError."""
        return await self.run(lambda connection: connection.execute(query, values).fetchall())

    async def change(self, statement: str, *rows: Sequence[Any]) -> int:
        """Run a statement for each row of values and return the number of changed rows; raises JournalError."""
        if not rows:
            return 0
        return await self.run(lambda connection: connection.executemany(statement, rows).rowcount)

    def _transaction(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(self._connection)
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")
        except _FAILURES as error:
            raise JournalError(
                f"the journal {self.path} cannot be written or read: {error}; check the space and the health of its "
                "disk, or stop the forester and move the journal away: the next start creates another"
            ) from error
        return result

    async def close(self) -> None:
        """Finish the work under way, and release the file."""
        await asyncio.get_running_loop().run_in_executor(self._executor, self._connection.close)
        self._executor.shutdown()
        os.close(self._lock)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()


class JournalStore:
    """Rows of one kind in a journal."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def log_unreadable(self, table: str, entry: object, remedy: str) -> None:
        """Log an entry that cannot be decoded; ``entry`` identifies it and is no secret."""
        fields = {"journal": str(self._journal.path), "table": table, "entry": str(entry), "remedy": remedy}
        _log.error("journal_entry_unreadable", **fields)


def require_usable(path: Path) -> None:
    """Raise the JournalError with which ``Journal.open`` would refuse an existing journal; nothing is changed.

    After a crash, which leaves a ``-wal`` file, the read may leave a ``-shm`` file next to it, which holds no data.
    """
    with _failures_explained(path), contextlib.ExitStack() as stack:
        with contextlib.suppress(FileNotFoundError):
            stack.callback(os.close, _open_lock_file(path))
        real = path.resolve()
        # SQLite writes a log in order to read, except from an immutable file: the lock excludes other writers.
        access = "mode=ro" if real.with_name(real.name + "-wal").exists() else "immutable=1"
        connection = stack.enter_context(contextlib.closing(sqlite3.connect(f"{real.as_uri()}?{access}", uri=True)))
        _version(connection, path)


@contextlib.contextmanager
def _failures_explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise JournalError(f"the journal {path} cannot be opened: {error.strerror}; correct --journal") from error
    except _FAILURES as error:
        raise JournalError(f"the journal {path} cannot be used: {error}; move it away to create another") from error


def _open_lock_file(path: Path, flags: int = 0) -> int:
    """Acquire the lock of a journal; it is held as long as the descriptor is open."""
    descriptor = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CLOEXEC | flags, 0o600)
    try:
        lock(descriptor)
    except BlockingIOError:
        os.close(descriptor)
        raise JournalLocked(
            f"another forester uses the journal {path}: stop it, or give this one a journal of its own; in Kubernetes "
            "update with the strategy Recreate, since a rolling update starts the second before the first has ended"
        ) from None
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _keep_private(path: Path) -> None:
    """Create the file for its owner alone, or make it so; SQLite gives its other files the same mode.

    Call it before SQLite opens the file: closing a descriptor of it releases the locks of the process.
    """
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    real = path.resolve()
    for file in (real, *(real.with_name(real.name + suffix) for suffix in ("-wal", "-shm", "-journal"))):
        try:
            if file.stat().st_mode & 0o077:
                file.chmod(0o600)
        except FileNotFoundError:
            continue
        except OSError as error:
            # Another owner's file on a shared volume, or a file system without modes: no reason to stop.
            _log.warning("journal_readable_by_others", file=str(file), error=error.strerror)


def _version(connection: sqlite3.Connection, path: Path) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version < 0:
        raise JournalError(f"the journal {path} has schema {version}, so it is damaged; move it away to create another")
    if version > len(_MIGRATIONS):
        raise JournalNewer(
            f"the journal {path} has schema {version}, this forester knows {len(_MIGRATIONS)}: use the newer release"
        )
    return int(version)


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    for number in range(_version(connection, path), len(_MIGRATIONS)):
        # executescript would commit on its own; one transaction per version keeps steps whole.
        connection.execute("BEGIN IMMEDIATE")
        for statement in _MIGRATIONS[number].split(";"):
            if statement.strip():
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {number + 1}")
        connection.execute("COMMIT")
