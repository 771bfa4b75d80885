"""What the gate samples and `make test-acceptance` does in full (ZKC_FULL=1)."""

from __future__ import annotations

import os

FULL = os.environ.get("ZKC_FULL") == "1"
