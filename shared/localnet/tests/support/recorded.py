"""The recorded transactions and tables of the published programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).resolve().parents[3] / "tests" / "vectors" / "onchain"

Recorded = dict[str, Any]


def recorded(name: str) -> Recorded:
    """Return one file of the vectors, without its suffix."""
    content: Recorded = json.loads((VECTORS / f"{name}.json").read_text())
    return content
