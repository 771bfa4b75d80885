"""Cost of signed transactions in lamports, by minute and purpose, so that a restart begins no other budget."""

import sqlite3

from forester.journal.database import JournalStore

WINDOW_S = 3600
_MINUTE_S = 60
UNKNOWN_PURPOSE = "unknown"
"""Of what a release before this column counted."""


class SpendingStore(JournalStore):
    """The spending in a journal. Times are Unix seconds; the window ends now and has at least WINDOW_S seconds."""

    async def reserve(
        self, lamports: int, *, maximum: int, now: float, purpose: str = UNKNOWN_PURPOSE
    ) -> tuple[bool, int]:
        """Count lamports if the window has room for them below ``maximum``; on disk when this returns (JournalError).

        Return whether it had, and the sum in the window afterwards. There are few words for ``purpose``.
        """

        def work(connection: sqlite3.Connection) -> tuple[bool, int]:
            spent = sum(_within_window(connection, now).values())
            if spent + lamports > maximum:
                return False, spent
            connection.execute(
                "INSERT INTO spending VALUES (?, ?, ?) "
                "ON CONFLICT (minute, purpose) DO UPDATE SET lamports = lamports + excluded.lamports",
                (_minute(now), purpose, lamports),
            )
            return True, spent + lamports

        return await self._journal.run(work)

    async def within_window(self, now: float) -> dict[str, int]:
        """Return the lamports in the window by purpose."""
        return await self._journal.run(lambda connection: _within_window(connection, now))


def _minute(now: float) -> int:
    return int(now // _MINUTE_S)


def _within_window(connection: sqlite3.Connection, now: float) -> dict[str, int]:
    """Drop minutes before the window, and return the sums of the rest by purpose."""
    # A clock that was set back must neither free the budget nor block it for longer than the window.
    minute = _minute(now)
    connection.execute(
        "INSERT INTO spending SELECT ?, purpose, sum(lamports) FROM spending WHERE minute > ? GROUP BY purpose "
        "ON CONFLICT (minute, purpose) DO UPDATE SET lamports = lamports + excluded.lamports",
        (minute, minute),
    )
    bounds = (minute, _minute(now - WINDOW_S))
    connection.execute("DELETE FROM spending WHERE minute > ? OR minute < ?", bounds)
    rows = connection.execute("SELECT purpose, sum(lamports) FROM spending GROUP BY purpose ORDER BY purpose")
    return dict(rows.fetchall())
