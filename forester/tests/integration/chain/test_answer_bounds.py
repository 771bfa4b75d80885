"""Answers of a node behind a real socket with more or larger values than a chain has."""

from __future__ import annotations

import pytest
from scripted_node import ScriptedNode, result, serving
from solders.pubkey import Pubkey

from forester.chain.lookup_tables import PROGRAM
from forester.chain.rpc_client import LISTED_ACCOUNTS, RpcClient
from forester.chain.rpc_pool import RetryPolicy, RpcPool
from forester.errors import MalformedAnswer


async def test_client__listing_of_too_many_accounts__is_a_malformed_answer() -> None:
    item = {"lamports": 1, "owner": str(PROGRAM), "data": ["", "base64"]}
    listed = [{"pubkey": str(PROGRAM), "account": item}] * (LISTED_ACCOUNTS + 1)
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
