"""The published list of methods of a node, and the methods about a cluster."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from chains import USER
from rpc_server import Served, served
from solana.rpc.async_api import AsyncClient
from solana.rpc.commitment import Processed
from solders.keypair import Keypair
from solders.rpc import requests

from localnet.chain.network import FAUCET, FIRST_SLOT, SLOTS_PER_EPOCH

NOT_FOUND = -32601
OF_ADMINISTRATORS = {"validatorExit"}
WITH_A_FLAG = {"blockSubscribe", "blockUnsubscribe", "voteSubscribe", "voteUnsubscribe"}
"""Nodes answer these with -32601, too, unless their operator enables them."""


@pytest_asyncio.fixture
async def server() -> AsyncIterator[Served]:
    async with served() as running:
        yield running


@pytest_asyncio.fixture
async def client(server: Served) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(server.url, commitment=Processed) as client:
        yield client


def published_methods() -> set[str]:
    """Return the methods that solders has a request for."""
    names = {name for name in dir(requests) if re.fullmatch(r"[A-Z][A-Za-z]+", name)}
    kinds = re.compile(r"(Send|Simulate)(Legacy|Raw|Versioned)")
    names = {kinds.sub(r"\1", name) for name in names - {"Body", "Sequence", "Union"}}
    return {name[0].lower() + name[1:] for name in names} - OF_ADMINISTRATORS


async def test_methods__published_list__are_all_found(server: Served) -> None:
    methods = published_methods()
    assert len(methods) > 60
    async with server.http.ws_connect(server.websocket_url) as socket:
        for method in sorted(methods):
            if method.endswith("ubscribe"):
                await socket.send_json({"jsonrpc": "2.0", "id": 1, "method": method, "params": []})
                answer = await socket.receive_json()
                while "id" not in answer:  # notifications of the subscriptions before
                    answer = await socket.receive_json()
            else:
                answer = await server.raw(method)
            refused = answer.get("error", {}).get("code") == NOT_FOUND
            assert refused == (method in WITH_A_FLAG), (method, answer)


async def test_cluster__one_validator__leads_every_slot(server: Served, client: AsyncClient) -> None:
    validator = FAUCET.pubkey()
    assert (await client.get_slot_leaders(FIRST_SLOT, 3)).value == [validator] * 3
    schedule = (await client.get_leader_schedule(commitment=Processed)).value
    assert schedule == {validator: list(range(SLOTS_PER_EPOCH))}
    later = SLOTS_PER_EPOCH * 2
    assert (await client.get_leader_schedule(later)).value is None
    server.network.advance(9)
    server.network.warp(server.network.slot + 10)
    production = (await server.call("getBlockProduction", {"commitment": "processed"}))["value"]
    assert production["byIdentity"] == {str(validator): [FIRST_SLOT + 20, 11]}
    assert await server.call("getMaxShredInsertSlot") == server.network.slot
    assert await server.call("getMaxRetransmitSlot") == server.network.slot


async def test_cluster__supply__is_the_sum_of_balances(server: Served, client: AsyncClient) -> None:
    before = (await client.get_supply()).value
    assert before.total == before.circulating
    assert before.total > (await client.get_balance(FAUCET.pubkey())).value
    target = Keypair().pubkey()
    await client.request_airdrop(target, 10**17)
    after = (await client.get_supply()).value
    assert after.total == before.total - 5000  # the fee of the airdrop
    largest = (await client.get_largest_accounts()).value
    assert len(largest) == 20
    assert [entry.lamports for entry in largest] == sorted((entry.lamports for entry in largest), reverse=True)
    assert [str(entry.address) for entry in largest[:2]] == [str(FAUCET.pubkey()), str(target)]


async def test_cluster__minutes__have_samples(server: Served, client: AsyncClient) -> None:
    assert (await client.get_recent_performance_samples(5)).value == []
    target = Keypair().pubkey()
    for _ in range(3):
        await client.request_airdrop(target, 10**9)
    server.network.advance(400)
    await client.request_airdrop(target, 10**9)
    samples = (await client.get_recent_performance_samples(5)).value
    assert [sample.num_slots for sample in samples] == [150, 150]
    assert [sample.num_transactions for sample in samples] == [0, 0]
    assert samples[0].slot - samples[1].slot == 150
    assert server.network.slot > samples[0].slot


async def test_cluster__no_stakes__are_reported_as_none(server: Served, client: AsyncClient) -> None:
    server.network.advance()
    assert (await client.get_inflation_rate()).value.total == 0
    assert (await client.get_inflation_governor()).value.initial == 0
    assert (await client.get_inflation_reward([USER.pubkey()], 0)).value == [None]
    assert (await server.call("getStakeMinimumDelegation"))["value"] == 10**9
    commitment = await server.call("getBlockCommitment", FIRST_SLOT + 1)
    assert commitment == {"commitment": [0] * 32, "totalStake": 0}
    error = await server.error("getHighestSnapshotSlot")
    assert (error["code"], error["message"]) == (-32008, "No snapshot")


@pytest.mark.parametrize(
    ("method", "params", "message"),
    [
        ("getSlotLeaders", [1, 5001], "Invalid limit; max 5000"),
        ("getRecentPerformanceSamples", [721], "Invalid limit; max 720"),
        ("getBlockProduction", [{"range": {"firstSlot": 1, "lastSlot": 10**9}}], "too large"),
        ("getBlockProduction", [{"range": 1}], "range is an object"),
        ("getLeaderSchedule", [None, {"identity": "x"}], "Invalid param"),
        ("getLargestAccounts", [{"filter": "all"}], "unknown variant"),
    ],
)
async def test_cluster__parameters_that_are_wrong__are_named(
    server: Served, method: str, params: list[object], message: str
) -> None:
    error = await server.error(method, *params)
    assert error["code"] == -32602
    assert message in error["message"]
