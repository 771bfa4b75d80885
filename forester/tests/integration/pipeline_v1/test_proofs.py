"""V1 proofs from an indexer behind a real socket: groups, elements that it refuses, metrics; what is left alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st
from v1_world import METADATA, STATE_TREE, TREE, leaf

from forester.chain.concurrent_accounts import QueueCell
from forester.chain.tree_metadata import TreeKind, TreeMetadata
from forester.errors import EndpointUnreachable, RateLimited
from forester.indexer.client import IndexerClient, IndexerTimes
from forester.indexer.failures import IndexerRefused
from forester.indexer.types import Hash32
from forester.observability.metrics import Metrics
from forester.pipeline_v1.indexer_proofs import IndexerProofs
from forester.pipeline_v1.proof_freshness import leads_to_root
from forester.pipeline_v1.recent_work import RecentWork
from shared.trees.indexed_merkle_tree import IndexedMerkleTree, ValuePresent
from shared.trees.merkle_tree import MerkleTree

ADDRESS_TREE = TreeMetadata(TREE, TreeKind.ADDRESS_V1, METADATA)
TREE_KEY = Hash32(bytes(TREE))


@dataclass
class Indexer:
    """Serves proofs of 64 leaves and of absent addresses; refuses groups with an element it does not know."""

    leaves: MerkleTree = field(default_factory=lambda: MerkleTree(26))
    addresses: IndexedMerkleTree = field(default_factory=lambda: IndexedMerkleTree(1))
    unknown: set[str] = field(default_factory=set)
    asked: list[int] = field(default_factory=list)
    merkle_tree: Hash32 = TREE_KEY
    status: int = 200

    def __post_init__(self) -> None:
        self.leaves.append([leaf(number) for number in range(1, 65)])

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.asked.append(len(body["params"]))
        if self.status != 200:
            return web.Response(status=self.status)
        try:
            if body["method"] == "getMultipleCompressedAccountProofs":
                value = [self.leaf_proof(text) for text in body["params"]]
            else:
                value = [self.absence(item["address"]) for item in body["params"]]
        except (LookupError, ValuePresent) as error:
            refused = {"code": -32000, "message": f"Record Not Found: {error}"}
            return web.json_response({"jsonrpc": "2.0", "id": body["id"], "error": refused})
        answer = {"context": {"slot": 1}, "value": value}
        return web.json_response({"jsonrpc": "2.0", "id": body["id"], "result": answer})

    def leaf_proof(self, text: str) -> dict[str, Any]:
        places = {str(Hash32(leaf(number))): number - 1 for number in range(1, 65)}
        if text in self.unknown:
            raise LookupError(text)
        return {
            "hash": text,
            "leafIndex": places[text],
            "merkleTree": str(self.merkle_tree),
            "proof": [str(Hash32(node)) for node in self.leaves.proof(places[text])],
            "root": str(Hash32(self.leaves.root)),
            "rootSeq": 64,
        }

    def absence(self, text: str) -> dict[str, Any]:
        values = {str(Hash32(leaf(number))): leaf(number) for number in range(1, 200)}
        shown = self.addresses.absence(values[text])
        return {
            "address": text,
            "merkleTree": str(self.merkle_tree),
            "root": str(Hash32(shown.root)),
            "rootSeq": 3,
            "lowElementLeafIndex": shown.low.index,
            "lowerRangeAddress": str(Hash32(shown.low.value)),
            "higherRangeAddress": str(Hash32(shown.low.next_value)),
            "nextIndex": shown.low.next_index,
            "proof": [str(Hash32(node)) for node in shown.path],
        }


@dataclass
class Served:
    indexer: Indexer
    client: IndexerClient
    metrics: Metrics = field(default_factory=Metrics)

    def proofs(self, tree: TreeMetadata = STATE_TREE) -> IndexerProofs:
        return IndexerProofs(self.client, tree, self.metrics)


@pytest_asyncio.fixture
async def served() -> AsyncIterator[Served]:
    indexer, app = Indexer(), web.Application()
    app.router.add_post("/{method}", indexer.handle)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        yield Served(indexer, IndexerClient(session, str(server.make_url("/")), times=IndexerTimes(attempts=1)))


def cells(*numbers: int) -> list[QueueCell]:
    return [QueueCell(number, leaf(number)) for number in numbers]


async def test_leaves__of_one_group__come_with_proofs_that_lead_to_the_root(served: Served) -> None:
    found = await served.proofs().of(cells(1, 7, 64))
    assert [proof.cell.index for proof in found] == [1, 7, 64]
    assert all(leads_to_root(proof) and proof.low is None for proof in found)
    assert served.indexer.asked == [3]
    counted = served.metrics.indexer_proofs
    for word in ("requested", "received"):
        assert counted.labels("StateV1", str(TREE), word)._value.get() == 3


async def test_addresses__of_one_group__come_with_their_low_elements(served: Served) -> None:
    served.indexer.addresses.insert_many([leaf(50), leaf(100)])
    found = await served.proofs(ADDRESS_TREE).of(cells(7, 60, 150))
    assert all(leads_to_root(proof) for proof in found)
    lows = [proof.low for proof in found if proof.low is not None]
    assert [int.from_bytes(low.value, "big") for low in lows] == [0, 50, 100]
    assert {len(low.proof) for low in lows} == {16}
    assert {len(proof.siblings) for proof in found} == {26}


@pytest.mark.parametrize("unknown", [(1,), (7, 8), (1, 16, 31)])
async def test_group__with_elements_that_the_indexer_does_not_know__is_halved_until_each_is_alone(
    served: Served, unknown: tuple[int, ...]
) -> None:
    served.indexer.unknown = {str(Hash32(leaf(number))) for number in unknown}
    found = await served.proofs().of(cells(*range(1, 32)))
    assert {proof.cell.index for proof in found} == set(range(1, 32)) - set(unknown)


async def test_address__that_is_in_the_tree__is_omitted(served: Served) -> None:
    served.indexer.addresses.insert_many([leaf(50)])
    found = await served.proofs(ADDRESS_TREE).of(cells(40, 50, 60))
    assert [proof.cell.index for proof in found] == [40, 60]


async def test_indexer__that_knows_nothing__is_asked_a_bounded_number_of_times(served: Served) -> None:
    served.indexer.unknown = {str(Hash32(leaf(number))) for number in range(1, 65)}
    with pytest.raises(IndexerRefused, match="Record Not Found"):
        await served.proofs().of(cells(*range(1, 65)))
    assert len(served.indexer.asked) <= 4 * 7 + 4
    assert await served.proofs().of(cells(1)) == []
    assert await served.proofs().of([]) == []


@pytest.mark.parametrize(("status", "error"), [(500, EndpointUnreachable), (429, RateLimited), (401, IndexerRefused)])
async def test_indexer__that_fails__is_not_asked_for_parts(served: Served, status: int, error: type[Exception]) -> None:
    served.indexer.status = status
    with pytest.raises(error):
        await served.proofs().of(cells(1, 2, 3, 4))
    assert served.indexer.asked == [4]


async def test_leaf__of_another_tree__is_no_proof(served: Served) -> None:
    served.indexer.merkle_tree = Hash32(bytes(32))
    assert await served.proofs().of(cells(1)) == []


def test_recent_work__is_remembered_for_its_time() -> None:
    now = [0.0]
    recent = RecentWork(open_s=10, done_s=20, clock=lambda: now[0])
    recent.sending(b"open")
    recent.done(b"done")
    recent.defer(b"bad")
    recent.sending(b"lost")
    recent.release(b"lost")
    assert [value in recent for value in (b"open", b"done", b"bad", b"lost", "text")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    now[0] = 10
    assert [value in recent for value in (b"open", b"done", b"bad")] == [False, True, True]
    now[0] = 20
    assert b"done" not in recent


@given(st.lists(st.integers(0, 50), max_size=1500))
def test_recent_work__whatever_is_noted__stays_within_twice_what_counts(steps: list[int]) -> None:
    now = [0.0]
    recent = RecentWork(open_s=5, done_s=5, clock=lambda: now[0])
    for number, step in enumerate(steps):
        now[0] += step / 100
        recent.sending(number.to_bytes(4, "big"))
        counting = sum(number.to_bytes(4, "big") in recent for number in range(number + 1)) if number % 100 == 0 else 0
        assert counting == 0 or len(recent) <= max(512, 2 * counting + 512)
