"""Two RPC nodes: what the first one refuses for its own reasons is asked of the fallback, what is our fault is not."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from aiohttp import web
from scripted_node import Answer, ScriptedNode, failure, result, serving, silence, status
from solders.signature import Signature

from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import FailOver, RetryPolicy, RpcPool
from forester.chain.rpc_transport import NodeRefused, may_have_arrived
from forester.errors import EndpointTimedOut, EndpointUnreachable, RequestRefused, TransactionRefused
from shared.process.retries import Backoff

NO_RETRY = RetryPolicy(retries=0)
FAST = RetryPolicy(3, Backoff(0.001, 0.01))
SIGNATURE = Signature.default()


def refused(http: int, code: int, message: str) -> Answer:
    """Return a refusal with an HTTP status of its own."""

    async def answer(_: dict[str, Any]) -> web.Response:
        error = {"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": message}}
        return web.Response(status=http, text=json.dumps(error))

    return answer


OF_NODE = [
    *(status(code, "no") for code in (401, 402, 403, 404)),
    status(302, headers={"Location": "http://127.0.0.1:1/"}),
    status(200, "{}"),
    failure(-32603, "Internal error"),
    failure(-32401, "Invalid API key"),
    failure(403, "Access forbidden"),
    failure(-32000, "Node is behind by 900 slots"),
    refused(401, -32600, "Must be authenticated!"),
]
OF_REQUEST = [
    failure(-32602, "Invalid params"),
    failure(-32601, "Method not found"),
    failure(-32003, "Transaction signature verification failure"),
    failure(-32002, "Transaction simulation failed"),
    refused(404, -32601, "Method not found"),
    refused(400, -32600, "Invalid request"),
    status(413, "too large"),
]


@pytest.mark.parametrize("answer", OF_NODE)
async def test_pool__first_node_refuses_for_its_own_reasons__fallback_answers_and_takes_over(answer: Answer) -> None:
    first, second = ScriptedNode(usual=answer), ScriptedNode(usual=result(2))
    async with serving(first, second):
        policy = FailOver(failure_threshold=3)
        async with RpcPool([first.url, second.url], retry=NO_RETRY, fail_over=policy) as pool:
            assert [await pool.call("getSlot", [], int) for _ in range(2)] == [2, 2]
            assert not pool.on_fallback
            assert [await pool.call("getSlot", [], int) for _ in range(2)] == [2, 2]
            assert pool.on_fallback
    assert first.asked == ["getSlot"] * 3
    assert second.asked == ["getSlot"] * 4


async def test_pool__first_node_is_unhealthy__is_left_after_the_threshold() -> None:
    first, second = ScriptedNode(usual=failure(-32005, "Node is unhealthy")), ScriptedNode(usual=result(2))
    async with serving(first, second), RpcPool([first.url, second.url], retry=FAST) as pool:
        assert await pool.call("getSlot", [], int) == 2
        assert pool.on_fallback
    assert first.asked == ["getSlot"] * 3


@pytest.mark.parametrize("answer", OF_REQUEST)
async def test_pool__request_is_refused__stays_with_the_first_node(answer: Answer) -> None:
    first, second = ScriptedNode(usual=answer), ScriptedNode(usual=result(2))
    async with serving(first, second), RpcPool([first.url, second.url], retry=FAST) as pool:
        for _ in range(4):
            with pytest.raises(RequestRefused) as raised:
                await pool.call("getSlot", [], int)
            assert not isinstance(raised.value, NodeRefused)
        assert not pool.on_fallback
    assert (len(first.asked), second.asked) == (4, [])


@pytest.mark.parametrize("answer", OF_NODE)
async def test_pool__only_node_refuses__is_asked_once(answer: Answer) -> None:
    node = ScriptedNode(usual=answer)
    async with serving(node), RpcPool([node.url], retry=FAST) as pool:
        with pytest.raises(RequestRefused) as raised:
            await pool.call("getSlot", [], int)
    assert raised.value.exit_code == 69
    assert node.asked == ["getSlot"]


async def test_pool__both_nodes_refuse__reports_the_last_and_calls_each_once() -> None:
    first, second = ScriptedNode(usual=status(401)), ScriptedNode(usual=status(403))
    async with serving(first, second), RpcPool([first.url, second.url], retry=FAST) as pool:
        with pytest.raises(NodeRefused, match="answered getSlot with 403"):
            await pool.call("getSlot", [], int)
    assert (first.asked, second.asked) == (["getSlot"], ["getSlot"])


async def test_pool__fallback_refuses_while_used__first_is_asked_again() -> None:
    first, second = ScriptedNode([status(502)] * 3, usual=result(1)), ScriptedNode(usual=status(401))
    async with serving(first, second), RpcPool([first.url, second.url], retry=FAST) as pool:
        assert await pool.call("getSlot", [], int) == 1
        assert second.asked == ["getSlot"]


async def test_pool__node_refuses_and_the_other_is_unreachable__reports_the_refusal_at_once() -> None:
    first, second = ScriptedNode(usual=status(502)), ScriptedNode(usual=failure(-32603, "Internal error"))
    async with serving(first, second), RpcPool([first.url, second.url], retry=FAST) as pool:
        with pytest.raises(NodeRefused, match="Internal error"):
            await pool.call("getSlot", [], int)
        assert pool.on_fallback
        asked = len(first.asked) + len(second.asked)
        with pytest.raises(NodeRefused, match="Internal error"):
            await pool.call("getSlot", [], int)
        assert len(first.asked) + len(second.asked) == asked + 2


async def test_pool__node_refuses_and_the_other_wants_to_be_asked_later__is_asked_again() -> None:
    first, second = ScriptedNode(usual=status(403)), ScriptedNode([status(429)], usual=result(2))
    async with serving(first, second), RpcPool([first.url, second.url], retry=FAST) as pool:
        assert await pool.call("getSlot", [], int) == 2


class Receiver(ScriptedNode):
    """A node that stores the transactions that it received."""

    def __init__(self, usual: Answer) -> None:
        super().__init__(usual=self._keep)
        self.sent: list[bytes] = []
        self._then = usual

    async def _keep(self, body: dict[str, Any]) -> web.Response:
        self.sent.append(base64.b64decode(body["params"][0]))
        return await self._then(body)


@pytest.mark.parametrize("answer", [status(401), failure(-32603, "Internal error")])
async def test_send__first_node_refuses__gives_the_fallback_the_same_transaction(answer: Answer) -> None:
    first, second = Receiver(answer), Receiver(result(str(SIGNATURE)))
    async with serving(first, second), RpcPool([first.url, second.url], retry=NO_RETRY) as pool:
        assert await RpcClient(pool).send_transaction(b"signed") == SIGNATURE
    assert (first.sent, second.sent) == ([b"signed"], [b"signed"])


async def test_send__simulation_fails__is_reported_without_the_fallback() -> None:
    answer = failure(-32002, "simulation failed", {"err": "AccountNotFound", "logs": []})
    first, second = Receiver(answer), Receiver(result(str(SIGNATURE)))
    async with serving(first, second), RpcPool([first.url, second.url], retry=NO_RETRY) as pool:
        with pytest.raises(TransactionRefused):
            await RpcClient(pool).send_transaction(b"signed")
    assert second.sent == []


async def test_send__refused_after_a_node_may_have_taken_it__is_no_refusal_that_lets_it_be_signed_again() -> None:
    first, second = ScriptedNode(usual=status(401)), ScriptedNode([silence], usual=status(403))
    async with serving(first, second), RpcPool([first.url, second.url], retry=FAST) as pool:
        with pytest.raises(EndpointTimedOut) as raised:
            await pool.call("sendTransaction", ["c2lnbmVk"], str, timeout_s=0.2, sends=True)
        assert raised.value.retryable
        second.script.append(silence)
        with pytest.raises(NodeRefused):
            await pool.call("getSlot", [], int, timeout_s=0.2)


@pytest.mark.parametrize("failed", [failure(-32603, "Internal error"), failure(-32000, "Internal Server Error")])
async def test_send__refused_by_one_node_after_the_other_failed_internally__is_no_refusal(failed: Answer) -> None:
    first, second = ScriptedNode(usual=failed), ScriptedNode(usual=failure(-32602, "no"))
    async with serving(first, second), RpcPool([first.url, second.url], retry=NO_RETRY) as pool:
        with pytest.raises(RequestRefused) as raised:
            await RpcClient(pool).send_transaction(b"signed")
        assert may_have_arrived(raised.value)
        with pytest.raises(RequestRefused, match="-32602"):
            await RpcClient(pool).slot()


@pytest.mark.parametrize(
    "refusal",
    [status(403), failure(-32603, "Internal error"), failure(-32002, "no", {"err": "BlockhashNotFound", "logs": []})],
    ids=["forbidden", "internal error", "simulation"],
)
async def test_send__only_node_refuses_after_it_may_have_taken_it__is_no_refusal(refusal: Answer) -> None:
    node = ScriptedNode([status(502)], usual=refusal)
    async with serving(node), RpcPool([node.url], retry=FAST) as pool:
        with pytest.raises(EndpointUnreachable, match="502") as raised:
            await RpcClient(pool).send_transaction(b"signed")
        assert raised.value.retryable
        with pytest.raises((NodeRefused, TransactionRefused)):
            await RpcClient(pool).send_transaction(b"signed")
    assert len(node.asked) == 3
