"""Paths in messages."""

import os
from pathlib import Path


def shown_path(path: Path) -> str:
    """Return a path for messages, without its text if no file exists, as that may be a secret given by mistake."""
    # Path.exists raises for names that are too long.
    return str(path) if os.path.exists(path) else "the file that it names"  # noqa: PTH110
