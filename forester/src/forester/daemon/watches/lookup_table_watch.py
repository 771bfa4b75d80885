"""Lookup table of the settings, read again for as long as the process runs."""

import asyncio

from forester.chain.lookup_tables import LookupTables
from forester.observability.health import HealthBoard, Severity

EVERY_S = 120.0
"""Less than the 513 slots for which a deactivated table can still be used."""


class LookupTableWatch:
    """Task that reads the table every ``every_s`` seconds; the supervisor repeats a failed reading sooner."""

    def __init__(self, tables: LookupTables, board: HealthBoard, *, every_s: float = EVERY_S) -> None:
        self._tables = tables
        self._board = board
        self._every_s = every_s

    async def run(self) -> None:
        """Watch forever. Raises EndpointError."""
        while True:
            await self._tables.refresh()
            self._board.set("lookup_table", self._tables.problem, severity=Severity.WARNING)
            await asyncio.sleep(self._every_s)
