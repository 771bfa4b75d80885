"""Recorded vectors that the tests of several members read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SHARED_VECTORS = Path(__file__).resolve().parents[4] / "shared" / "tests" / "vectors"


def shared_vectors(name: str) -> Any:
    """Return a file of the vectors as JSON values, by its path without suffix."""
    return json.loads((SHARED_VECTORS / f"{name}.json").read_text())
