"""Tests that a machine cannot run: skipped by developers' runs, failed by the gate."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def skip_or_fail(reason: str) -> NoReturn:
    """Skip the test that runs, or fail it under ZKC_REQUIRE_REFERENCE=1: the gate leaves nothing unchecked."""
    if os.environ.get("ZKC_REQUIRE_REFERENCE") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
