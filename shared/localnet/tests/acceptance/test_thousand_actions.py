"""A thousand random user actions and batches on the real programs; minutes on a slow machine."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from indexer_life import live

from localnet.indexer.database.store import Store


@pytest.mark.timeout(1800)
async def test_live__thousand_actions__roots_equal_the_chains_and_a_rebuild_the_store(tmp_path: Path) -> None:
    with closing(Store(tmp_path / "indexer.sqlite", durable=False)) as store:
        await live(store, actions=1000, seed=11)
