"""Compressible accounts in the journal: when each may be compressed, and what that earns.

The rows are what a node has reported, possibly wrong or out of date: an account is read again before it is compressed.
"""

import sqlite3
import time
from collections.abc import Iterable
from dataclasses import dataclass

from forester.journal.database import Journal

NEVER_SLOT = 2**62
"""Slot of an account that pays no rent."""

MAXIMUM_ACCOUNTS = 2**23
"""Maximum rows, so that a dishonest node does not fill the disk; a row takes about 100 bytes."""

_COMPARED = 5000
"""Ready accounts whose rewards are compared, the oldest: a million would hold up the journal for seconds."""


@dataclass(frozen=True, slots=True)
class TrackedAccount:
    """An account that may be compressed from ``ready_slot`` on, for ``reward`` lamports; as read at ``seen_slot``."""

    address: bytes
    ready_slot: int
    reward: int
    seen_slot: int


@dataclass(frozen=True, slots=True)
class TrackedCounts:
    """Numbers of accounts, and the first slot in which one that waits is ready."""

    tracked: int = 0
    ready: int = 0
    next_ready_slot: int | None = None

    @property
    def waiting(self) -> int:
        """Accounts that are not ready."""
        return self.tracked - self.ready


class CompressibleStore:
    """The compressible accounts in a journal."""

    def __init__(self, journal: Journal, *, maximum: int = MAXIMUM_ACCOUNTS) -> None:
        self._journal = journal
        self._maximum = maximum

    async def put(self, accounts: Iterable[TrackedAccount]) -> int:
        """Store accounts unless their row is of a later slot; return the number for which there is no room."""
        rows = [(item.address, item.ready_slot, item.reward, item.seen_slot) for item in accounts]
        statement = """
            INSERT INTO compressible_accounts VALUES (?, ?, ?, ?) ON CONFLICT (address) DO UPDATE
            SET ready_slot = excluded.ready_slot, reward = excluded.reward, seen_slot = excluded.seen_slot
            WHERE excluded.seen_slot >= seen_slot
        """

        def work(connection: sqlite3.Connection) -> int:
            (count,) = connection.execute("SELECT COUNT(*) FROM compressible_accounts").fetchone()
            fitting = rows[: max(0, self._maximum - count)]
            connection.executemany(statement, fitting)
            return len(rows) - len(fitting)

        return await self._journal.run(work)

    async def remove(self, addresses: Iterable[bytes]) -> None:
        """Remove accounts that no longer exist."""
        rows = [(address,) for address in addresses]
        statement = "DELETE FROM compressible_accounts WHERE address = ?"
        await self._journal.run(lambda connection: connection.executemany(statement, rows).rowcount)

    async def postpone(self, address: bytes, slot: int) -> None:
        """Let an account wait until a slot, or until a change of it is seen."""
        statement = "UPDATE compressible_accounts SET ready_slot = ? WHERE address = ?"
        await self._journal.run(lambda connection: connection.execute(statement, (slot, address)).rowcount)

    async def ready(self, slot: int, maximum: int) -> list[bytes]:
        """Return up to ``maximum`` accounts that may be compressed in a slot; those that earn most come first."""
        query = """
            SELECT address FROM (
                SELECT address, ready_slot, reward FROM compressible_accounts WHERE ready_slot <= ?
                ORDER BY ready_slot LIMIT ?
            ) ORDER BY reward DESC, ready_slot LIMIT ?
        """
        values = (slot, max(maximum, _COMPARED), maximum)
        rows = await self._journal.run(lambda connection: connection.execute(query, values).fetchall())
        return [address for (address,) in rows]

    async def counts(self, slot: int) -> TrackedCounts:
        """Return the numbers of accounts at a slot."""
        query = """
            SELECT COUNT(*), COUNT(*) FILTER (WHERE ready_slot <= :slot),
                   MIN(ready_slot) FILTER (WHERE ready_slot > :slot AND ready_slot < :never)
            FROM compressible_accounts
        """
        values = {"slot": slot, "never": NEVER_SLOT}
        return TrackedCounts(*await self._journal.run(lambda connection: connection.execute(query, values).fetchone()))

    async def finish_scan(self, slot: int) -> int:
        """Record a complete scan that began at a slot; return the number of removed accounts that it did not find."""

        def work(connection: sqlite3.Connection) -> int:
            connection.execute("DELETE FROM compressible_scans")
            connection.execute("INSERT INTO compressible_scans VALUES (?, ?)", (slot, time.time()))
            return connection.execute("DELETE FROM compressible_accounts WHERE seen_slot < ?", (slot,)).rowcount

        return await self._journal.run(work)

    async def last_scan_at(self) -> float:
        """Return when the last complete scan ended, Unix seconds; 0 if there was none."""
        query = "SELECT finished_at FROM compressible_scans"
        row = await self._journal.run(lambda connection: connection.execute(query).fetchone())
        return float(row[0]) if row is not None else 0.0
