"""Compressible accounts in the journal: when each may be compressed, and what that earns.

The rows are what a node has reported, possibly wrong or out of date: an account is read again before it is compressed.
"""

import hashlib
import itertools
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from forester.journal.database import Journal, JournalStore

TOKEN, ASSOCIATED_TOKEN, MINT = range(3)
"""Kinds of accounts; ``program_kind`` returns those of other programs."""

LABELS = {TOKEN: "ctoken", ASSOCIATED_TOKEN: "ata", MINT: "mint"}
"""Names of kinds in metrics and answers, which have ``pda`` for the kinds of other programs."""


_FIRST_PROGRAM = 16

NEVER_SLOT = 2**62
"""Slot of an account that pays no rent."""

MAXIMUM_ACCOUNTS = 2**23
"""Maximum rows, so that a dishonest node does not fill the disk; a row takes about 120 bytes."""

_LONGEST_SCAN_SLOTS = 10_000
"""Slots after the beginning of a scan in which its rows can be changed by notifications; more than an hour."""

_COMPARED = 5000
"""Ready accounts of a kind whose rewards are compared, the oldest: a million would hold up the journal for seconds."""


def program_kind(program: bytes, discriminator: bytes) -> int:
    """Return the kind of the accounts of a program that begin with a discriminator."""
    return _FIRST_PROGRAM + int.from_bytes(hashlib.sha256(program + discriminator).digest()[:7], "big")


@dataclass(frozen=True, slots=True)
class TrackedAccount:
    """An account that may be compressed from ``ready_slot`` on, for ``reward`` lamports; as read at ``seen_slot``.

    Rent of ``rent`` lamports for each rent epoch from ``claimed_epoch`` on has not been claimed.
    """

    address: bytes
    kind: int
    ready_slot: int
    reward: int
    seen_slot: int
    claimed_epoch: int = 0
    rent: int = 0


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

    def __add__(self, other: "TrackedCounts") -> "TrackedCounts":
        slots = [slot for slot in (self.next_ready_slot, other.next_ready_slot) if slot is not None]
        return TrackedCounts(self.tracked + other.tracked, self.ready + other.ready, min(slots, default=None))


class CompressibleStore(JournalStore):
    """The compressible accounts in a journal."""

    def __init__(self, journal: Journal, *, maximum: int = MAXIMUM_ACCOUNTS) -> None:
        super().__init__(journal)
        self._maximum = maximum
        self._room = 0
        """Rows that fit without counting those that exist, which takes long: a lower bound."""

    async def put(self, accounts: Iterable[TrackedAccount]) -> int:
        """Store accounts unless their row has a later slot; return the number of new ones that have no room."""
        rows = [
            (item.address, item.kind, item.ready_slot, item.reward, item.seen_slot, item.claimed_epoch, item.rent)
            for item in accounts
        ]
        if not rows:
            return 0
        statement = """
            INSERT INTO compressible_accounts VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (address) DO UPDATE
            SET kind = excluded.kind, ready_slot = excluded.ready_slot, reward = excluded.reward,
                seen_slot = excluded.seen_slot, claimed_epoch = excluded.claimed_epoch, rent = excluded.rent
            WHERE excluded.seen_slot >= seen_slot
        """

        def work(connection: sqlite3.Connection) -> int:
            tracked: set[bytes] = set()
            if self._room < len(rows):
                found = "SELECT address FROM compressible_accounts WHERE address = ?"
                tracked = {address for row in rows for (address,) in connection.execute(found, row[:1])}
            new = [row for row in rows if row[0] not in tracked]
            if self._room < len(new):
                (count,) = connection.execute("SELECT COUNT(*) FROM compressible_accounts").fetchone()
                self._room = max(0, self._maximum - count)
            fitting = [row for row in rows if row[0] in tracked] + new[: self._room]
            self._room -= min(len(new), self._room)
            connection.executemany(statement, fitting)
            return len(rows) - len(fitting)

        return await self._journal.run(work)

    async def remove(self, addresses: Iterable[bytes]) -> None:
        """Remove accounts that no longer exist."""
        statement = "DELETE FROM compressible_accounts WHERE address = ?"
        await self._journal.change(statement, *((address,) for address in addresses))

    async def keep_kinds(self, kinds: Iterable[int]) -> None:
        """Remove accounts of all other kinds: of programs that are no longer named."""
        await self._journal.change(
            f"DELETE FROM compressible_accounts WHERE kind NOT IN ({_listed(kinds)})",  # noqa: S608 - integers
            (),
        )

    async def postpone(self, slots: Mapping[bytes, int]) -> None:
        """Let accounts wait until a slot each, or until they are read again."""
        statement = "UPDATE compressible_accounts SET ready_slot = ? WHERE address = ?"
        await self._journal.change(statement, *((slot, address) for address, slot in slots.items()))

    async def claimed(self, addresses: Iterable[bytes], epoch: int) -> None:
        """Record that the rent of accounts has been claimed up to a rent epoch, exclusive."""
        statement = "UPDATE compressible_accounts SET claimed_epoch = ? WHERE address = ?"
        await self._journal.change(statement, *((epoch, address) for address in addresses))

    async def ready(self, kinds: Sequence[int], slot: int, maximum: int) -> list[bytes]:
        """Return up to ``maximum`` accounts of kinds that may be compressed; most reward first."""
        oldest = """
            SELECT * FROM (
                SELECT address, ready_slot, reward FROM compressible_accounts WHERE kind = ? AND ready_slot <= ?
                ORDER BY ready_slot LIMIT ?
            )
        """
        compared = " UNION ALL ".join([oldest] * len(kinds))
        query = f"SELECT address FROM ({compared}) ORDER BY reward DESC, ready_slot LIMIT ?"  # noqa: S608 - no values
        limits = [(kind, slot, max(maximum, _COMPARED)) for kind in kinds]
        rows = await self._journal.fetch(query, (*itertools.chain(*limits), maximum))
        return [address for (address,) in rows]

    async def claimable(self, slot: int, epoch: int, maximum: int) -> list[tuple[bytes, int]]:
        """Return up to ``maximum`` accounts with their kinds that owe rent of completed epochs, most rent first."""
        query = """
            SELECT address, kind FROM compressible_accounts
            WHERE ready_slot > :slot AND rent > 0 AND claimed_epoch < :epoch
            ORDER BY (:epoch - claimed_epoch) * rent DESC LIMIT :maximum
        """
        return await self._journal.fetch(query, {"slot": slot, "epoch": epoch, "maximum": maximum})

    async def counts(self, slot: int) -> Mapping[int, TrackedCounts]:
        """Return the numbers of accounts of each kind at a slot."""
        query = """
            SELECT kind, COUNT(*), COUNT(*) FILTER (WHERE ready_slot <= :slot),
                   MIN(ready_slot) FILTER (WHERE ready_slot > :slot AND ready_slot < :never)
            FROM compressible_accounts GROUP BY kind
        """
        rows = await self._journal.fetch(query, {"slot": slot, "never": NEVER_SLOT})
        return {kind: TrackedCounts(*counts) for kind, *counts in rows}

    async def missed(self, kinds: Sequence[int], slot: int) -> tuple[int, int]:
        """Return the number of accounts of kinds that a scan begun at a slot did not find, and of all."""
        query = f"""
            SELECT COUNT(*) FILTER (WHERE seen_slot < ?), COUNT(*) FROM compressible_accounts
            WHERE +kind IN ({_listed(kinds)})
        """  # noqa: S608 - integers
        ((missed, tracked),) = await self._journal.fetch(query, (slot,))
        return missed, tracked

    async def missed_sample(self, kinds: Sequence[int], slot: int, maximum: int) -> list[bytes]:
        """Return up to ``maximum`` random accounts of kinds that a scan begun at a slot did not find."""
        query = f"""
            SELECT address FROM compressible_accounts WHERE seen_slot < ? AND +kind IN ({_listed(kinds)})
            ORDER BY RANDOM() LIMIT ?
        """  # noqa: S608 - integers
        return [address for (address,) in await self._journal.fetch(query, (slot, maximum))]

    async def finish_scan(self, kinds: Sequence[int], slot: int) -> int:
        """Record a complete scan of kinds that began at a slot; return the number of accounts that it did not find.

        Rows of a slot long after the scan come from a wrong answer; later scans replace them or find them gone.
        """
        listed = _listed(kinds)

        def work(connection: sqlite3.Connection) -> int:
            connection.execute(
                "INSERT OR REPLACE INTO compressible_scans VALUES (?, ?, ?)", (kinds[0], slot, time.time())
            )
            connection.execute(
                f"UPDATE compressible_accounts SET seen_slot = ? WHERE seen_slot > ? AND +kind IN ({listed})",  # noqa: S608
                (slot, slot + _LONGEST_SCAN_SLOTS),
            )
            statement = f"DELETE FROM compressible_accounts WHERE seen_slot < ? AND +kind IN ({listed})"  # noqa: S608
            return connection.execute(statement, (slot,)).rowcount

        return await self._journal.run(work)

    async def last_scan_at(self, kinds: Sequence[int]) -> float:
        """Return when the last complete scan of kinds ended, Unix seconds; 0 if there was none."""
        query = "SELECT finished_at FROM compressible_scans WHERE kind = ?"
        rows = await self._journal.fetch(query, (kinds[0],))
        return float(rows[0][0]) if rows else 0.0


def _listed(kinds: Iterable[int]) -> str:
    """Return kinds as SQL lists them."""
    return ",".join(str(int(kind)) for kind in kinds)
