"""A fault-injecting proxy: refuses, stays silent, loses and falsifies answers of a service, and records the calls."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import copy
import hashlib
import json
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

MAX_BODY_BYTES = 64 << 20
_REMEMBERED_CALLS = 100_000
_OF_ONE_CONNECTION = frozenset(
    {"host", "connection", "keep-alive", "transfer-encoding", "content-length", "accept-encoding"}
)
_PROOFS = ("getMultipleCompressedAccountProofs", "getMultipleNewAddressProofsV2")


@dataclass(frozen=True)
class Call:
    """A call to the proxy: ``body`` is its JSON, empty for methods other than POST."""

    request: web.Request
    body: dict[str, Any]
    over: asyncio.Event
    """Set when the fault ends."""

    @property
    def method(self) -> str:
        """JSON-RPC method, else the path."""
        return str(self.body.get("method", self.request.path))


Fault = Callable[[Call], Awaitable[web.StreamResponse | None]]
"""Function that answers a call instead of the service; None forwards the call."""

Lie = Callable[[Call, Any], None]
"""Changes the result of a method in place."""

Observer = Callable[[Call, float, int], None]
"""Gets each call that was passed on, the time of its arrival in Unix seconds, and the status of its answer."""


@dataclass
class FaultProxy:
    """A proxy that applies ``fault`` and ``lie`` while they are set; ``times`` has all calls, Unix seconds."""

    fault: Fault | None = None
    lie: Lie | None = None
    observe: Observer | None = None
    over: asyncio.Event = field(default_factory=asyncio.Event)
    times: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED_CALLS))

    def show(self, *, fault: Fault | None = None, lie: Lie | None = None) -> None:
        """Inject a fault, a lie or both until ``behave``."""
        self.fault, self.lie, self.over = fault, lie, asyncio.Event()

    def behave(self) -> None:
        """End every fault."""
        self.fault = self.lie = None
        self.over.set()

    def calls(self, began: float, ended: float) -> int:
        """Return the number of calls between two times, Unix seconds."""
        return self.methods(began, ended).total()

    def methods(self, began: float, ended: float) -> Counter[str]:
        """Return the number of calls between two times by method."""
        return Counter(method for at, method in self.times if began <= at <= ended)

    @contextlib.asynccontextmanager
    async def before(self, url: str) -> AsyncIterator[str]:
        """Listen on a free port in front of the service at ``url``; yield the URL to use instead."""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:

            async def come(request: web.Request) -> web.StreamResponse:
                raw = await request.read()
                call, came = Call(request, _json(raw), self.over), time.time()
                self.times.append((came, call.method))
                answered = await self.fault(call) if self.fault is not None else None
                if answered is None:
                    answered = await self._pass_on(session, url, call, raw)
                    if self.observe is not None:
                        self.observe(call, came, answered.status)
                return answered

            app = web.Application(client_max_size=MAX_BODY_BYTES)
            app.router.add_route("*", "/{path:.*}", come)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
            await runner.setup()
            try:
                await web.TCPSite(runner, "127.0.0.1", 0).start()
                host, port = runner.addresses[0][:2]
                yield f"http://{host}:{port}"
            finally:
                self.behave()
                await runner.cleanup()

    async def _pass_on(self, session: aiohttp.ClientSession, url: str, call: Call, raw: bytes) -> web.Response:
        target, lie = f"{url.rstrip('/')}{call.request.rel_url}", self.lie
        headers = {
            name: value for name, value in call.request.headers.items() if name.lower() not in _OF_ONE_CONNECTION
        }
        try:
            async with session.request(call.request.method, target, data=raw, headers=headers) as answer:
                content, status, kind = await answer.read(), answer.status, answer.content_type
        except aiohttp.ClientError:
            return await cut(call)
        if lie is not None and status == 200 and "result" in (answered_json := _json(content)):
            lie(call, answered_json["result"])
            content = json.dumps(answered_json).encode()
        return web.Response(body=content, status=status, content_type=kind)


def _json(raw: bytes) -> dict[str, Any]:
    with contextlib.suppress(ValueError):
        answered_json = json.loads(raw)
        if isinstance(answered_json, dict):
            return answered_json
    return {}


def too_many(retry_after: str | None = None) -> Fault:
    """Return a fault that answers every call with 429."""

    async def answer(_call: Call) -> web.Response:
        return web.Response(status=429, headers={"Retry-After": retry_after} if retry_after is not None else {})

    return answer


async def silent(call: Call) -> web.Response:
    """Give no answer while the fault lasts, then close the connection."""
    await call.over.wait()
    return await cut(call)


async def cut(call: Call) -> web.Response:
    """Close the connection without an answer."""
    if call.request.transport is not None:
        call.request.transport.abort()
    return web.Response(status=502)


async def unavailable(_call: Call) -> web.Response:
    """Answer 503 as a gateway does."""
    return web.Response(status=503, text="<html>no backend</html>", content_type="text/html")


async def lost_sends(call: Call) -> web.Response | None:
    """Acknowledge transactions and drop them."""
    if call.method != "sendTransaction":
        return None
    transaction = VersionedTransaction.from_bytes(base64.b64decode(call.body["params"][0]))
    answer = {"jsonrpc": "2.0", "id": call.body.get("id"), "result": str(transaction.signatures[0])}
    return web.json_response(answer)


def _other(seed: str) -> str:
    """Return an unused field element, in base58."""
    return str(Pubkey(b"\0" + hashlib.sha256(seed.encode()).digest()[1:]))


def _queues(result: Any) -> Iterator[dict[str, Any]]:
    for name in ("stateQueue", "addressQueue"):
        if isinstance(result, dict) and result.get(name):
            yield result[name]


def wrong_root(call: Call, result: Any) -> None:
    """Replace roots by others than the chain's."""
    if call.method == "getQueueElements":
        for queue in _queues(result):
            queue["initialRoot"] = _other(queue["initialRoot"])
    elif call.method in _PROOFS:
        for proof in result["value"]:
            proof["root"] = _other(proof["root"])


def wrong_leaf(call: Call, result: Any) -> None:
    """Replace queue elements by ones that were never queued."""
    for queue in _queues(result) if call.method == "getQueueElements" else ():
        for part in (queue.get("outputQueue"), queue.get("inputQueue")):
            if part and part["accountHashes"]:
                part["accountHashes"][0] = _other(part["accountHashes"][0])
        if queue.get("addresses"):
            queue["addresses"][0] = _other(queue["addresses"][0])


def wrong_nodes(call: Call, result: Any) -> None:
    """Replace nodes, so that they do not lead to the tree's root."""
    if call.method == "getQueueElements":
        for queue in _queues(result):
            for node in queue["nodes"][-1:]:
                node["hash"] = _other(node["hash"])
    elif call.method in _PROOFS:
        for proof in result["value"]:
            proof["proof"][0] = _other(proof["proof"][0])


def stale_sequence(call: Call, result: Any) -> None:
    """Replace sequence numbers by those of an earlier tree."""
    for queue in _queues(result) if call.method == "getQueueElements" else ():
        queue["rootSeq"] = max(0, queue["rootSeq"] - 5)


class Stale:
    """A lie that repeats the first answer about each tree and leaf while the slot advances."""

    def __init__(self) -> None:
        self._first: dict[str, Any] = {}

    def __call__(self, call: Call, result: Any) -> None:
        """Replace the answer by the first one."""
        if call.method in ("getQueueElements", *_PROOFS):
            params = call.body.get("params")
            subject = params["tree"] if isinstance(params, dict) else params
            first = self._first.setdefault(f"{call.method} {json.dumps(subject)}", copy.deepcopy(result))
            result.clear()
            result.update(copy.deepcopy(first))
