"""The page of differences names every option, metric and route of the reference."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

FORESTER = Path(__file__).resolve().parents[2]
NAMED = set(re.findall(r"`([^`]+)`", (FORESTER / "docs/reference/differences.md").read_text()))
TABLE = json.loads((FORESTER / "tests/vectors/command_options.json").read_text())


@pytest.mark.parametrize("command", ["start", "status", "health", "dashboard"])
def test_page__of_differences__names_all_options_of_the_reference(command: str) -> None:
    assert {row["option"] for row in TABLE[command] if row["source"] != "ours"} - NAMED == set()


def test_page__of_differences__names_all_metrics_and_routes_of_the_reference() -> None:
    metrics = json.loads((FORESTER / "contracts/metrics.json").read_text())
    assert {*metrics, "/health", "/status", "/metrics", "/metrics/json", "/compressible"} - NAMED == set()
