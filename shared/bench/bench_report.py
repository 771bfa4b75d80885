"""The result of a run: tables, figures and bounds, printed for a reader or as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass
class Report:
    """Tables by title, each row with the same names; figures; and bounds with what was found."""

    tables: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)
    checks: list[dict[str, Any]] = field(default_factory=list)

    def require(self, bound: str, kept: bool, found: object) -> None:
        """Add a bound and what was found."""
        self.checks.append({"bound": bound, "kept": kept, "found": str(found)})

    @property
    def passed(self) -> bool:
        """Return True if every bound was kept."""
        return all(check["kept"] for check in self.checks)

    def write(self, *, as_json: bool) -> None:
        """Print one JSON object, or tables."""
        if as_json:
            found = {"passed": self.passed, "checks": self.checks, "figures": self.figures, "tables": self.tables}
            print(json.dumps(found, indent=2))
            return
        console = Console(width=None if sys.stdout.isatty() else 200)
        figures = [{"figure": name.replace("_", " "), "value": _text(value)} for name, value in self.figures.items()]
        tables: dict[str, Sequence[Mapping[str, Any]]] = {**self.tables, "figures": figures, "bounds": self.checks}
        for title, rows in tables.items():
            if rows:
                table = Table(*(name.replace("_", " ") for name in rows[0]), title=title)
                for row in rows:
                    table.add_row(*map(_text, row.values()), style=None if row.get("kept", True) else "red")
                console.print(table)


def percentile(values: Iterable[float], percent: int) -> float:
    """Return a percentile by nearest rank; 0 without values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] if ordered else 0.0


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "\n".join(f"{name}: {_text(item)}" for name, item in value.items()) or "none"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return str(value)
