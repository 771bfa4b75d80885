"""What several unit tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from prover.kernel.engine import Engine


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """An engine with one thread; modules that need another have their own."""
    with Engine(threads=1) as engine:
        yield engine
