"""Transactions of an address: pages in both orders, filters, memos, token accounts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from chains import FORESTER, USER, send
from rpc_server import Served, served
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer

MEMO = Pubkey.from_string("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr")
TARGET = Keypair().pubkey()
CONFIRMED = {"commitment": "confirmed"}


def pay(lamports: int) -> Instruction:
    return transfer(TransferParams(from_pubkey=USER.pubkey(), to_pubkey=TARGET, lamports=lamports))


@pytest_asyncio.fixture
async def server() -> AsyncIterator[Served]:
    """Seven payments in slots of two, of which the third fails and the last has a memo."""
    async with served() as running:
        network = running.network
        network.airdrop(TARGET, 10**9)
        network.advance()
        for number in range(7):
            lamports = 10**18 if number == 2 else 10**6 + number
            memos = [Instruction(MEMO, b"for \xc3\xbc", [])] if number == 6 else []
            send(network, [pay(lamports), *memos], USER)
            network.advance(number % 2)
        network.advance()
        yield running


async def pages(server: Served, **config: Any) -> list[list[dict[str, Any]]]:
    found, token = [], None
    while True:
        wanted = CONFIRMED | config | ({"paginationToken": token} if token else {})
        answer = await server.call("getTransactionsForAddress", str(TARGET), wanted)
        found.append(answer["data"])
        token = answer["paginationToken"]
        if token is None:
            return found


async def test_history__pages__are_all_transactions_in_either_order(server: Served) -> None:
    known = await server.call("getSignaturesForAddress", str(TARGET), CONFIRMED)
    assert len(known) == 8
    assert known[0]["memo"] == "[6] for ü"
    assert known[1]["memo"] is None
    down = await pages(server, limit=3)
    assert [len(page) for page in down] == [3, 3, 2]
    flat = [entry for page in down for entry in page]
    assert [entry["signature"] for entry in flat] == [entry["signature"] for entry in known]
    up = [entry for page in await pages(server, limit=3, sortOrder="asc") for entry in page]
    assert up == flat[::-1]
    for entry in flat:
        block = await server.call("getBlock", entry["slot"], CONFIRMED | {"transactionDetails": "signatures"})
        assert block["signatures"][entry["transactionIndex"]] == entry["signature"]


async def test_history__filters__narrow_the_answer(server: Served) -> None:
    [everything] = await pages(server, sortOrder="asc")
    signatures = [entry["signature"] for entry in everything]
    [failed] = await pages(server, filters={"status": "failed"})
    [succeeded] = await pages(server, filters={"status": "succeeded"})
    assert (len(failed), len(succeeded)) == (1, 7)
    middle = everything[3]["slot"]
    [later] = await pages(server, filters={"slot": {"gt": middle}}, sortOrder="asc")
    [earlier] = await pages(server, filters={"slot": {"lte": middle}}, sortOrder="asc")
    assert earlier + later == everything
    bounds = {"gte": signatures[2], "lt": signatures[5]}
    [between] = await pages(server, filters={"signature": bounds}, sortOrder="asc")
    assert [entry["signature"] for entry in between] == signatures[2:5]
    [timed] = await pages(server, filters={"blockTime": {"eq": everything[0]["blockTime"]}})
    assert signatures[0] in {entry["signature"] for entry in timed}


async def test_history__full__has_the_transactions(server: Served) -> None:
    options = {"transactionDetails": "full", "encoding": "jsonParsed", "maxSupportedTransactionVersion": 0}
    [newest, *_] = (await pages(server, **options))[0]
    message = newest["transaction"]["message"]
    assert [entry["program"] for entry in message["instructions"]] == ["system", "spl-memo"]
    assert message["instructions"][1]["parsed"] == "for ü"
    assert newest["meta"]["err"] is None


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"limit": 1001}, "Invalid limit; max 1000"),
        ({"transactionDetails": "full", "limit": 101}, "Invalid limit; max 100"),
        ({"paginationToken": "x"}, "paginationToken has the format"),
        ({"filters": {"slot": 3}}, "slot is an object of bounds"),
        ({"filters": {"signature": {"gt": str(Pubkey.default())}}}, "Invalid param"),
        ({"filters": 1}, "filters is an object"),
        ({"commitment": "processed"}, "commitment below `confirmed`"),
    ],
)
async def test_history__parameters_that_are_wrong__are_named(
    server: Served, config: dict[str, Any], message: str
) -> None:
    error = await server.error("getTransactionsForAddress", str(FORESTER.pubkey()), CONFIRMED | config)
    assert error["code"] == -32602
    assert message in error["message"]
