"""What the gate samples and `make test-acceptance` does in full (ZKC_FULL=1)."""

from __future__ import annotations

import os

FULL = os.environ.get("ZKC_FULL") == "1"
CHECKED = bool(os.environ.get("PROVER_TESTING_LIBRARY"))
"""Whether this is `make sanitize`."""


def examples(count: int) -> int:
    """How many examples of arithmetic to compare: the checked build is to see every path, not as many values."""
    return max(2, count // 5) if CHECKED else count
