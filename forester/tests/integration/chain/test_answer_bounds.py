"""Answers of a node behind a real socket with more or larger values than a chain has."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import Any

import msgspec
import pytest
from aiohttp import web
from scripted_node import ScriptedNode, result, serving, status
from solders.pubkey import Pubkey
from solders.signature import Signature

from forester.chain import rpc_client
from forester.chain.lookup_tables import PROGRAM
from forester.chain.rpc_client import LISTED_ACCOUNTS, LONGEST_PAGINATION_KEY, RpcClient
from forester.chain.rpc_pool import FailOver, RetryPolicy, RpcPool
from forester.errors import MalformedAnswer
from shared.process.retries import Backoff

ACCOUNT = {"lamports": 1, "owner": str(PROGRAM), "data": ["", "base64"]}


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


async def test_client__listing_of_too_many_accounts__is_a_malformed_answer() -> None:
    listed = [{"pubkey": str(PROGRAM), "account": ACCOUNT}] * (LISTED_ACCOUNTS + 1)
    node = ScriptedNode(usual=result(listed))
    async with serving(node), RpcPool([node.url], retry=RetryPolicy(0)) as pool:
        with pytest.raises(MalformedAnswer, match="returned 10001 accounts, more than 10000"):
            await RpcClient(pool).program_accounts(PROGRAM)
        assert len(await RpcClient(pool).program_accounts(PROGRAM, maximum=None)) == len(listed)


async def test_client__slot_or_balance_that_no_chain_has__is_a_malformed_answer() -> None:
    node = ScriptedNode()
    async with serving(node), RpcPool([node.url], retry=RetryPolicy(0)) as pool:
        client = RpcClient(pool)
        for value in (-1, 2**48 + 1, 10**30):
            node.usual = result(value)
            with pytest.raises(MalformedAnswer, match="getSlot unexpectedly"):
                await client.slot()
            node.usual = result({"value": value * 10**4})
            with pytest.raises(MalformedAnswer, match="getBalance unexpectedly"):
                await client.balance(Pubkey.default())


@pytest.mark.parametrize("answer", ['{"result":DEEP}', '{"error":{"code":1,"data":DEEP}}', '{"other":DEEP,"result":1}'])
async def test_pool__answer_nested_deeply__is_a_malformed_answer_and_leads_to_the_fallback(answer: str) -> None:
    liar = ScriptedNode(usual=status(200, answer.replace("DEEP", nested(100_000))))
    honest = ScriptedNode(usual=result(7))
    policy = RetryPolicy(5, Backoff(0.001, 0.002))
    async with serving(liar, honest):
        async with RpcPool([liar.url], retry=RetryPolicy(0)) as alone:
            with pytest.raises(MalformedAnswer, match="something that is not JSON-RPC"):
                await RpcClient(alone).slot()
        async with RpcPool([liar.url, honest.url], retry=policy, fail_over=FailOver(3)) as both:
            assert await RpcClient(both).slot() == 7
            assert both.on_fallback


async def test_client__answer_of_any_depth__is_an_answer_or_malformed() -> None:
    node = ScriptedNode()
    async with serving(node), RpcPool([node.url], retry=RetryPolicy(0)) as pool:
        for depth in range(850, 1050, 5):
            node.usual = status(200, f'{{"result":{{"meta":{nested(depth)}}}}}')
            with contextlib.suppress(MalformedAnswer):
                assert await RpcClient(pool).transaction(Signature.default())


async def test_pool__result_nested_deeply__is_a_malformed_answer() -> None:
    async with RpcPool(["http://127.0.0.1:1/"]) as pool:
        with pytest.raises(MalformedAnswer, match="getBlock unexpectedly: nested too deeply"):
            pool._decoded(pool._endpoints[0], "getBlock", msgspec.Raw(nested(100_000).encode()), list)


@pytest.mark.parametrize(
    "blockhash",
    [
        {"blockhash": str(PROGRAM), "lastValidBlockHeight": 10**30},
        {"blockhash": str(PROGRAM), "lastValidBlockHeight": -1},
        {"blockhash": "no base58", "lastValidBlockHeight": 5},
    ],
)
async def test_client__blockhash_that_no_chain_has__is_a_malformed_answer(blockhash: dict[str, Any]) -> None:
    node = ScriptedNode(usual=result({"value": blockhash}))
    async with serving(node), RpcPool([node.url], retry=RetryPolicy(0)) as pool:
        with pytest.raises(MalformedAnswer, match=r"getLatestBlockhash unexpectedly|not a blockhash"):
            await RpcClient(pool).latest_blockhash()


async def test_client__genesis_hash_longer_than_any__is_a_malformed_answer() -> None:
    node = ScriptedNode(usual=result("=" * 45))
    async with serving(node), RpcPool([node.url], retry=RetryPolicy(0)) as pool:
        with pytest.raises(MalformedAnswer, match="getGenesisHash unexpectedly"):
            await RpcClient(pool).genesis_hash()


class PagingNode(ScriptedNode):
    """A node of Helius that never runs out of pages; ``keys`` are those of its pages."""

    def __init__(self, *keys: str) -> None:
        super().__init__(usual=self._page)
        self._keys = iter(keys) if keys else map(str, itertools.count())

    async def _page(self, _: dict[str, Any]) -> web.Response:
        page = {"accounts": [{"pubkey": str(PROGRAM), "account": ACCOUNT}], "paginationKey": next(self._keys)}
        return web.json_response({"jsonrpc": "2.0", "id": 1, "result": page})


@pytest.mark.parametrize(
    ("keys", "pages", "reason"),
    [
        ((), 5, "getProgramAccountsV2 returned over 5 pages"),
        (("a", "b", "a"), 3, "getProgramAccountsV2 returned the same paginationKey twice"),
        (("a" * (LONGEST_PAGINATION_KEY + 1),), 0, r"answered getProgramAccountsV2 unexpectedly: .*length"),
    ],
)
async def test_client__pages_that_do_not_end__are_a_malformed_answer(
    monkeypatch: pytest.MonkeyPatch, keys: tuple[str, ...], pages: int, reason: str
) -> None:
    monkeypatch.setattr(rpc_client, "MAXIMUM_PAGES", 5)
    node, read = PagingNode(*keys), list[int]()

    async def read_pages(client: RpcClient) -> None:
        async for page in client.program_account_pages(PROGRAM, memcmp=[], start=0, length=1):
            read.append(len(page))

    async with serving(node), RpcPool([node.url], retry=RetryPolicy(0)) as pool:
        with pytest.raises(MalformedAnswer, match=reason):
            await asyncio.wait_for(read_pages(RpcClient(pool)), timeout=60)
    assert len(read) == pages
