"""Cost of signed transactions in lamports, by minute, so that a restart does not begin another budget."""

import sqlite3

from forester.journal.database import Journal

WINDOW_S = 3600
_MINUTE_S = 60


class SpendingStore:
    """The spending in a journal. Times are Unix seconds; the window ends now and has at least WINDOW_S seconds."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def reserve(self, lamports: int, *, maximum: int, now: float) -> tuple[bool, int]:
        """Count lamports if the window has room for them below ``maximum``; on disk when this returns (JournalError).

        Return whether it had, and the sum in the window afterwards.
        """

        def work(connection: sqlite3.Connection) -> tuple[bool, int]:
            spent = _within_window(connection, now)
            if spent + lamports > maximum:
                return False, spent
            connection.execute(
                "INSERT INTO spending VALUES (?, ?) ON CONFLICT (minute) DO UPDATE SET lamports = lamports + ?",
                (_minute(now), lamports, lamports),
            )
            return True, spent + lamports

        return await self._journal.run(work)

    async def within_window(self, now: float) -> int:
        """Return the lamports in the window."""
        return await self._journal.run(lambda connection: _within_window(connection, now))


def _minute(now: float) -> int:
    return int(now // _MINUTE_S)


def _within_window(connection: sqlite3.Connection, now: float) -> int:
    """Drop minutes before the window, and return the sum of the rest."""
    # A clock that was set back must neither free the budget nor block it for longer than the window.
    (ahead,) = connection.execute(
        "SELECT coalesce(sum(lamports), 0) FROM spending WHERE minute > ?", (_minute(now),)
    ).fetchone()
    if ahead:
        connection.execute("DELETE FROM spending WHERE minute > ?", (_minute(now),))
        connection.execute(
            "INSERT INTO spending VALUES (?, ?) ON CONFLICT (minute) DO UPDATE SET lamports = lamports + ?",
            (_minute(now), ahead, ahead),
        )
    connection.execute("DELETE FROM spending WHERE minute < ?", (_minute(now - WINDOW_S),))
    (lamports,) = connection.execute("SELECT coalesce(sum(lamports), 0) FROM spending").fetchone()
    return int(lamports)
