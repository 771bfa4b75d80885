"""Compressed token accounts and balances from an indexer, over a real socket."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest
from aiohttp import web
from scripted_node import ScriptedNode, serving
from solders.pubkey import Pubkey

from forester.checks.result import CheckFailed
from forester.checks.tokens import check_tokens
from forester.indexer.client import IndexerClient

OWNER = Pubkey(bytes([7]) * 32)
MINTS = [str(Pubkey(bytes([place]) * 32)) for place in (1, 2)]


async def checked(balances: list[int]) -> str:
    """Return three accounts on two pages: 5 and 100 of the first mint, 7 of the second."""
    amounts = {None: ([(0, 5), (1, 7)], "next"), "next": ([(0, 100)], None)}

    async def answer(body: dict[str, Any]) -> web.Response:
        assert body["params"]["owner"] == str(OWNER)
        if body["method"].startswith("getCompressedTokenAccounts"):
            items: list[dict[str, Any]]
            held, cursor = amounts[body["params"].get("cursor")]
            items = [{"account": {}, "tokenData": {"mint": MINTS[mint], "amount": amount}} for mint, amount in held]
        else:
            pairs = zip(MINTS, balances, strict=False)
            items, cursor = [{"mint": mint, "balance": balance} for mint, balance in pairs], None
        value = {"context": {"slot": 1}, "value": {"items": items, "cursor": cursor}}
        return web.json_response({"jsonrpc": "2.0", "id": body["id"], "result": value})

    node = ScriptedNode(usual=answer)
    async with serving(node), aiohttp.ClientSession() as session:
        return await check_tokens(IndexerClient(session, node.url), OWNER)


async def test_tokens__accounts_on_several_pages__add_up_to_the_balances() -> None:
    assert await checked([105, 7]) == f"3 accounts of 2 mints of {OWNER}, balances agree"


@pytest.mark.parametrize("balances", [[104, 7], [105], []])
async def test_tokens__balances_that_differ__fail_and_name_a_mint(balances: list[int]) -> None:
    with pytest.raises(CheckFailed, match="differ for"):
        await checked(balances)
