"""No setting is decoration: each is read somewhere outside the table of settings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import forester
from forester.settings import Settings

SOURCES = Path(forester.__file__).parent
CHECKED_ONLY = {"legacy_ixs_per_tx"}
"""Only one value is possible, which the validation explains."""


@pytest.fixture(scope="module")
def code() -> str:
    files = [path for path in SOURCES.rglob("*.py") if path.parent.name not in ("settings", "checks", "cli")]
    return "\n".join(path.read_text() for path in files)


@pytest.mark.parametrize("name", sorted(Settings.model_fields.keys() - CHECKED_ONLY))
def test_setting__of_the_table__has_an_effect_on_the_daemon(name: str, code: str) -> None:
    assert re.search(rf"settings\.{name}\b", code), f"nothing reads {name}"
