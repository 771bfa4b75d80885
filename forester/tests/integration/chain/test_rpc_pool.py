"""Calls to nodes that are slow, busy, broken or gone, over real sockets."""

from __future__ import annotations

import asyncio
import base64
import time
from typing import Any

import pytest
from scripted_node import Answer, ScriptedNode, failure, result, serving, silence, status
from solders.pubkey import Pubkey

from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import FailOver, RetryPolicy, RpcPool
from forester.chain.rpc_transport import NodeRefused
from forester.checks.node import check_same_cluster
from forester.checks.result import CheckFailed
from forester.errors import (
    EndpointError,
    EndpointTimedOut,
    EndpointUnreachable,
    InsufficientFunds,
    MalformedAnswer,
    RateLimited,
    RequestRefused,
    TransactionRefused,
)
from shared.process.rate_limits import TokenBucket
from shared.process.retries import Backoff

FAST = RetryPolicy(3, Backoff(0.001, 0.01))
NO_RETRY = RetryPolicy(retries=0)
SECRET = "s3cr3t-api-key"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def ask(node: ScriptedNode, retry: RetryPolicy = NO_RETRY, **options: Any) -> Any:
    async with serving(node), RpcPool([f"{node.url}?api-key={SECRET}"], retry=retry) as pool:
        return await pool.call("getSlot", [], int, **options)


@pytest.mark.parametrize(
    "answer",
    [
        status(503, "busy"),
        status(408),
        status(429),
        failure(-32005, "Node is behind by 42 slots"),
        failure(-32016, "Minimum context slot has not been reached"),
    ],
)
async def test_call__passing_failure__is_tried_again(answer: Answer) -> None:
    node = ScriptedNode([answer, answer, result(7)])
    assert await ask(node, FAST) == 7
    assert node.asked == ["getSlot"] * 3


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (status(500, "oops"), EndpointUnreachable),
        (status(408), EndpointUnreachable),
        (failure(408, "timed out"), EndpointUnreachable),
        (failure(504, "Gateway Timeout"), EndpointUnreachable),
        (status(429), RateLimited),
        (failure(429, "slow down"), RateLimited),
        (failure(-32602, "Invalid params"), RequestRefused),
        (status(401, "no"), NodeRefused),
        (status(302, headers={"Location": "http://127.0.0.1:1/"}), NodeRefused),
        (status(400, "bad"), RequestRefused),
        (failure(-32603, "Internal error"), NodeRefused),
        (status(200, "<html>"), MalformedAnswer),
        (status(200, "[]"), MalformedAnswer),
        (status(200, "{}"), NodeRefused),
        (result("seven"), MalformedAnswer),
        (result(None), MalformedAnswer),
    ],
)
async def test_call__every_kind_of_failure__is_typed_and_names_the_node_without_its_key(
    answer: Answer, error: type[EndpointError]
) -> None:
    with pytest.raises(error) as raised:
        await ask(ScriptedNode(usual=answer))
    assert type(raised.value) is error
    assert "RPC node 127.0.0.1:" in raised.value.detail
    assert SECRET not in raised.value.detail


async def test_call__refused_for_what_was_asked__is_not_tried_again() -> None:
    node = ScriptedNode(usual=failure(-32602, "Invalid params"))
    with pytest.raises(RequestRefused) as raised:
        await ask(node, FAST)
    assert raised.value.code == -32602
    assert node.asked == ["getSlot"]


async def test_call__no_answer__is_given_up_after_its_time() -> None:
    with pytest.raises(EndpointTimedOut, match=r"did not answer getSlot within 0\.2 s"):
        await ask(ScriptedNode(usual=silence), timeout_s=0.2)


async def test_call__nobody_listens__is_unreachable_within_the_retries() -> None:
    async with RpcPool(["http://127.0.0.1:1/"], retry=FAST) as pool:
        with pytest.raises(EndpointUnreachable, match="cannot be reached for getSlot"):
            await pool.call("getSlot", [], int)


async def test_call__deadline_of_the_caller__ends_the_retries() -> None:
    node = ScriptedNode(usual=status(503))
    patient = RetryPolicy(1000, Backoff(0.05, 0.1))
    with pytest.raises((EndpointUnreachable, EndpointTimedOut)):
        await asyncio.wait_for(ask(node, patient, deadline_s=0.5), timeout=30)
    assert 1 < len(node.asked) < 1000


def test_pause__retry_after__is_honoured_and_otherwise_grows_to_its_bound() -> None:
    policy = RetryPolicy(5, Backoff(1.0, 16.0))
    assert policy.pause(1, RateLimited(retry_after_s=40.0)) == 40.0
    for failures in range(1, 200):
        bound = min(16.0, 2.0 ** (failures - 1))
        assert 0 <= policy.pause(failures, EndpointUnreachable()) <= bound
        assert bound / 2 <= policy.pause(failures, RateLimited()) <= bound


async def test_pool__one_call_gets_retry_after__others_wait_as_well() -> None:
    node = ScriptedNode(usual=result(7), script=[status(429, headers={"Retry-After": "1"})])
    async with serving(node), RpcPool([node.url], retry=NO_RETRY) as pool:
        with pytest.raises(RateLimited):
            await pool.call("getSlot", [], int)
        with pytest.raises(RateLimited, match=r"accepts no calls for . s, getSlot cannot wait so long"):
            await pool.call("getSlot", [], int, deadline_s=0.1)
        assert len(node.asked) == 1
        began = time.monotonic()
        assert await asyncio.gather(*(pool.call("getSlot", [], int) for _ in range(3))) == [7, 7, 7]
        assert time.monotonic() - began > 0.5


async def test_pool__first_node_fails__fallback_takes_over_until_the_first_is_healthy() -> None:
    clock = Clock()
    first = ScriptedNode(usual=status(502))
    second = ScriptedNode(usual=result(2))
    async with serving(first, second):
        policy = FailOver(failure_threshold=3, probe_interval_s=30)
        async with RpcPool([first.url, second.url], retry=FAST, fail_over=policy, clock=clock) as pool:
            assert await pool.call("getSlot", [], int) == 2
            assert pool.on_fallback
            assert len(first.asked) == 3
            assert await pool.call("getSlot", [], int) == 2
            assert len(first.asked) == 3
            clock.now += 31
            assert await pool.call("getSlot", [], int) == 2
            assert first.asked[3:] == ["getHealth"]
            first.usual = result(1)
            assert await pool.call("getSlot", [], int) == 2
            first.script = [result("ok")]
            clock.now += 31
            assert await pool.call("getSlot", [], int) == 1
            assert not pool.on_fallback


async def test_pool__first_node_answers_and_stalls__is_left_until_it_is_as_far_as_the_fallback() -> None:
    clock = Clock()
    first, second = ScriptedNode(usual=result(100)), ScriptedNode(usual=result(5000))
    async with serving(first, second):
        async with RpcPool([first.url, second.url], retry=NO_RETRY, clock=clock) as pool:
            assert await pool.call("getSlot", [], int) == 100
            pool.leave_stuck_node()
            assert await pool.call("getSlot", [], int) == 5000
            clock.now += 31
            assert await pool.call("getSlot", [], int) == 5000, "healthy, and far behind"
            assert first.asked[1:] == ["getHealth", "getSlot"]
            clock.now += 31
            second.usual = status(503)
            assert await pool.call("getSlot", [], int) == 100, "there is nothing better"
            second.usual = result(5000)
            pool.leave_stuck_node()
            first.usual = result(4990)
            clock.now += 31
            assert await pool.call("getSlot", [], int) == 4990
            assert not pool.on_fallback
        async with RpcPool([first.url], retry=NO_RETRY) as pool:
            pool.leave_stuck_node()
            assert await pool.call("getSlot", [], int) == 4990, "there is no other"


async def test_pool__refusals__do_not_count_as_failures_of_the_node() -> None:
    first, second = ScriptedNode(usual=failure(-32602, "Invalid params")), ScriptedNode()
    async with serving(first, second), RpcPool([first.url, second.url], retry=NO_RETRY) as pool:
        for _ in range(5):
            with pytest.raises(RequestRefused):
                await pool.call("getSlot", [], int)
        assert not pool.on_fallback
        assert second.asked == []


async def test_pool__rate_limit__spaces_reads_and_not_sends() -> None:
    node = ScriptedNode(usual=result("5" * 8))
    async with serving(node), RpcPool([node.url], retry=NO_RETRY, reads=TokenBucket(10)) as pool:
        started = time.monotonic()
        for _ in range(4):
            await pool.call("sendTransaction", [], str, sends=True)
        await asyncio.gather(*(pool.call("getSlot", [], str) for _ in range(6)))
        assert time.monotonic() - started >= 0.49


async def test_pool__rate_limit_beyond_the_deadline__ends_the_wait_and_uses_no_pass() -> None:
    first, second = ScriptedNode(usual=result(5)), ScriptedNode(usual=result(5))
    limit = TokenBucket(0.01)
    async with serving(first, second), RpcPool([first.url, second.url], retry=NO_RETRY, reads=limit) as pool:
        await pool.call("getSlot", [], int)
        async with asyncio.timeout(10):
            with pytest.raises(EndpointTimedOut, match="the rate limit admits no call in time; raise --rpc-rate-limit"):
                await pool.call("getSlot", [], int, deadline_s=0.2)
            assert pool.unused is not None
            with pytest.raises(EndpointTimedOut, match="the rate limit admits no call in time"):
                await pool.unused.call("getSlot", [], int, deadline_s=0.2)
    assert (first.asked, second.asked, pool.on_fallback) == (["getSlot"], [], False)
    assert limit.take() <= 100


ADDRESS = Pubkey(bytes([3]) * 32)
WIRE = {
    "lamports": 5,
    "owner": str(ADDRESS),
    "data": [base64.b64encode(b"abc").decode(), "base64"],
    "executable": False,
}


async def client_answer(answer: Answer, call: str, *arguments: Any) -> Any:
    node = ScriptedNode(usual=answer)
    async with serving(node), RpcPool([node.url], retry=NO_RETRY) as pool:
        return await getattr(RpcClient(pool), call)(*arguments)


async def test_client__accounts__come_in_order_with_gaps() -> None:
    found = await client_answer(result({"value": [WIRE, None]}), "accounts", [ADDRESS, ADDRESS])
    assert (found[0].data, found[0].lamports, found[1]) == (b"abc", 5, None)


@pytest.mark.parametrize(
    "value",
    [
        {"value": [WIRE]},
        {"value": [WIRE | {"data": ["%%", "base64"]}, None]},
        {"value": [WIRE | {"owner": "0OIl"}, None]},
        {"value": [{"lamports": -1}, None]},
        {},
    ],
)
async def test_client__accounts_that_make_no_sense__are_a_malformed_answer(value: Any) -> None:
    with pytest.raises(MalformedAnswer):
        await client_answer(result(value), "accounts", [ADDRESS, ADDRESS])


async def test_client__accounts_over_the_limit_of_a_call__are_asked_in_parts() -> None:
    async def echo(body: dict[str, Any]) -> Any:
        return await result({"value": [None] * len(body["params"][0])})(body)

    node = ScriptedNode(usual=echo)
    async with serving(node), RpcPool([node.url]) as pool:
        assert await RpcClient(pool).accounts([ADDRESS] * 201) == [None] * 201
    assert len(node.asked) == 3


@pytest.mark.parametrize(
    ("err", "kind"),
    [("InsufficientFundsForFee", InsufficientFunds), ({"InstructionError": [0, {"Custom": 6004}]}, TransactionRefused)],
)
async def test_client__simulation_fails__is_a_typed_refusal(err: Any, kind: type[TransactionRefused]) -> None:
    logs = ["Program Lighton6oQpVkeewmo2mcPTQQp7kYHr4fWpAgJyEmDX failed: custom program error: 0x1774"]
    answer = failure(-32002, "Transaction simulation failed", {"err": err, "logs": logs})
    with pytest.raises(kind) as raised:
        await client_answer(answer, "send_transaction", b"tx")
    assert type(raised.value) is kind
    if kind is TransactionRefused:
        assert raised.value.detail == "registry refused instruction 0: error 6004 (ForesterNotEligible)"


async def test_fallback_node__of_another_cluster__fails_its_check() -> None:
    ours, theirs = ScriptedNode(usual=result("aaa")), ScriptedNode(usual=result("bbb"))
    async with serving(ours, theirs), RpcPool([ours.url]) as first, RpcPool([theirs.url]) as second:
        with pytest.raises(CheckFailed, match="another cluster"):
            await check_same_cluster(RpcClient(first), RpcClient(second))
