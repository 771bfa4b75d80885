"""Memory, threads and files of a process, and the number of rows in a forester's journal."""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import dataclass
from pathlib import Path

KIB_PER_MIB = 1024


@dataclass(frozen=True)
class Figures:
    """A process at a moment; ``rows`` are those of its journal, by table."""

    resident_mib: float
    threads: int
    files: int
    rows: dict[str, int]


def figures_of(pid: int, journal: Path) -> Figures:
    """Read all figures; ProcessLookupError or FileNotFoundError if the process has ended."""
    status = _status(pid)
    files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return Figures(int(status["VmRSS"].split()[0]) / KIB_PER_MIB, int(status["Threads"]), files, journal_rows(journal))


def resident_mib(pid: int) -> float:
    """Return the resident memory."""
    return round(int(_status(pid)["VmRSS"].split()[0]) / KIB_PER_MIB, 1)


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def journal_rows(journal: Path) -> dict[str, int]:
    """Return the number of rows of each table, while a forester uses the journal."""
    with contextlib.closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in names}  # noqa: S608
