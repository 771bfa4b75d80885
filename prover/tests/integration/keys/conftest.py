"""Fixtures of tests that download keys."""

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a keys directory that does not exist yet."""
    return tmp_path / "keys"
