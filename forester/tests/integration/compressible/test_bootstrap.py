"""The first scan of a chain's token accounts, over a socket: in one answer, in parts, and in pages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from account_node import AccountNode, address_of, prepaid_epochs
from aiohttp.test_utils import TestServer

from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RpcPool
from forester.compressible.rent import RENT_EPOCH_SLOTS
from forester.compressible.sources import sources
from forester.compressible.tracker import AccountTracker
from forester.journal.compressible import NEVER_SLOT, TOKEN, CompressibleStore, TrackedCounts
from forester.journal.database import Journal

FEW, MANY = 500, 30_000
TOKENS, MINTS = sources([])


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[CompressibleStore]:
    async with await Journal.open(tmp_path / "journal.sqlite") as journal:
        yield CompressibleStore(journal)


async def scanned(node: AccountNode, store: CompressibleStore, *, paged: bool) -> TrackedCounts:
    async with TestServer(node.application) as server, RpcPool([str(server.make_url("/"))]) as pool:
        for source in (TOKENS, MINTS):
            await AccountTracker(source, RpcClient(pool), store, current_slot=lambda: NEVER_SLOT, paged=paged).scan()
    return (await store.counts(4 * RENT_EPOCH_SLOTS))[TOKEN]


def ready(accounts: int) -> int:
    return sum(prepaid_epochs(number) <= 4 for number in range(accounts))


async def test_bootstrap__of_few_accounts__takes_one_answer(store: CompressibleStore) -> None:
    node = AccountNode(FEW)
    counts = await scanned(node, store, paged=False)
    assert (counts.tracked, counts.ready, counts.next_ready_slot) == (FEW, ready(FEW), 5 * RENT_EPOCH_SLOTS)
    assert node.calls["getProgramAccounts"] == 4  # a part and all, of token accounts and of mints
    found = await store.ready(TOKENS.kinds, 2 * RENT_EPOCH_SLOTS, FEW)
    assert set(found) == {bytes(address_of(number)) for number in range(FEW) if prepaid_epochs(number) == 2}


async def test_bootstrap__of_many_accounts__takes_parts_of_an_even_size(store: CompressibleStore) -> None:
    node = AccountNode(MANY)
    counts = await scanned(node, store, paged=False)
    assert (counts.tracked, counts.ready) == (MANY, ready(MANY))
    assert node.calls["getProgramAccounts"] == 256 + 2
    assert node.largest_answer < 100_000


async def test_bootstrap__with_helius_rpc__reads_pages(store: CompressibleStore) -> None:
    node = AccountNode(MANY, paged=True)
    counts = await scanned(node, store, paged=True)
    assert (counts.tracked, counts.ready) == (MANY, ready(MANY))
    assert (node.calls["getProgramAccountsV2"], node.calls["getProgramAccounts"]) == (3 + 1, 0)


async def test_bootstrap__with_helius_rpc_on_another_node__reads_as_without(store: CompressibleStore) -> None:
    node = AccountNode(FEW)
    assert (await scanned(node, store, paged=True)).tracked == FEW
    assert node.calls["getProgramAccounts"] == 4
