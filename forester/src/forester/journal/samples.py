"""One row for each minute of the last 24 hours, behind the curves of the dashboard."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from forester.journal.database import JournalStore

MINUTE_S = 60
KEPT_MINUTES = 24 * 60


@dataclass(frozen=True)
class Sample:
    """A minute (Unix time / 60): elements that waited on the network, and the payer's lamports; None is unknown.

    Proofs made and elements confirmed are those since the sample before.
    """

    minute: int
    backlog: int | None
    proofs: int
    elements: int
    lamports: int | None


class SampleStore(JournalStore):
    """The samples in a journal, at most KEPT_MINUTES + 1."""

    async def add(self, sample: Sample) -> list[Sample]:
        """Store a sample, and return all of the last 24 hours by age. Counts of the same minute are added up.

        Raises JournalError. Later minutes are dropped: the machine's clock was set back.
        """

        def work(connection: sqlite3.Connection) -> list[Sample]:
            connection.execute(
                "INSERT INTO samples VALUES (?, ?, ?, ?, ?) ON CONFLICT (minute) DO UPDATE SET "
                "backlog = excluded.backlog, proofs = proofs + excluded.proofs, "
                "elements = elements + excluded.elements, lamports = excluded.lamports",
                (sample.minute, sample.backlog, sample.proofs, sample.elements, sample.lamports),
            )
            return _recent(connection, sample.minute)

        return await self._journal.run(work)

    async def recent(self, minute: int) -> list[Sample]:
        """Return the samples of the 24 hours before ``minute``, by age. Raises JournalError."""
        return await self._journal.run(lambda connection: _recent(connection, minute))


def _recent(connection: sqlite3.Connection, minute: int) -> list[Sample]:
    connection.execute("DELETE FROM samples WHERE minute < ? OR minute > ?", (minute - KEPT_MINUTES, minute))
    rows: Sequence[tuple[int, int | None, int, int, int | None]] = connection.execute(
        "SELECT minute, backlog, proofs, elements, lamports FROM samples ORDER BY minute"
    ).fetchall()
    return [Sample(*row) for row in rows]
