"""A door in front of a service that can be told to refuse, to be silent, to lose and to lie; it counts the calls."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import copy
import hashlib
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

MAX_BODY_BYTES = 64 << 20
_REMEMBERED_CALLS = 100_000
_PROOFS = ("getMultipleCompressedAccountProofs", "getMultipleNewAddressProofsV2")


@dataclass(frozen=True)
class Call:
    """A call that came to the door: ``body`` is its JSON, empty for other methods than POST."""

    request: web.Request
    body: dict[str, Any]
    over: asyncio.Event
    """Set when the fault ends."""

    @property
    def method(self) -> str:
        """The JSON-RPC method, else the path."""
        return str(self.body.get("method", self.request.path))


Fault = Callable[[Call], Awaitable[web.StreamResponse | None]]
"""Answers a call instead of the service; None passes it on."""

Lie = Callable[[Call, Any], None]
"""Changes the result of a method in place."""


@dataclass
class Door:
    """``fault`` and ``lie`` are shown while they are set; ``times`` are of all calls, Unix seconds."""

    fault: Fault | None = None
    lie: Lie | None = None
    over: asyncio.Event = field(default_factory=asyncio.Event)
    times: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED_CALLS))

    def show(self, *, fault: Fault | None = None, lie: Lie | None = None) -> None:
        """Misbehave from now on."""
        self.fault, self.lie, self.over = fault, lie, asyncio.Event()

    def behave(self) -> None:
        """End every fault."""
        self.fault = self.lie = None
        self.over.set()

    def calls(self, began: float, ended: float) -> int:
        """How many calls came between two moments."""
        return sum(began <= at <= ended for at, _ in self.times)

    @contextlib.asynccontextmanager
    async def before(self, url: str) -> AsyncIterator[str]:
        """Stand before the service at ``url`` on a free port; gives the URL to use instead."""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:

            async def come(request: web.Request) -> web.StreamResponse:
                raw = await request.read()
                call = Call(request, _json(raw), self.over)
                self.times.append((time.time(), call.method))
                answered = await self.fault(call) if self.fault is not None else None
                if answered is not None:
                    return answered
                return await self._pass_on(session, url, call, raw)

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
        headers = {"Content-Type": call.request.content_type}
        try:
            async with session.request(call.request.method, target, data=raw, headers=headers) as answer:
                content, status, kind = await answer.read(), answer.status, answer.content_type
        except aiohttp.ClientError:
            return web.Response(status=502)
        if lie is not None and status == 200 and "result" in (told := _json(content)):
            lie(call, told["result"])
            content = json.dumps(told).encode()
        return web.Response(body=content, status=status, content_type=kind)


def _json(raw: bytes) -> dict[str, Any]:
    with contextlib.suppress(ValueError):
        told = json.loads(raw)
        if isinstance(told, dict):
            return told
    return {}


def too_many(retry_after: str | None = None) -> Fault:
    """429 for every call."""

    async def answer(_call: Call) -> web.Response:
        return web.Response(status=429, headers={"Retry-After": retry_after} if retry_after is not None else {})

    return answer


async def silent(call: Call) -> web.Response:
    """No answer while the fault lasts, then a broken connection."""
    await call.over.wait()
    return await cut(call)


async def cut(call: Call) -> web.Response:
    """A broken connection."""
    if call.request.transport is not None:
        call.request.transport.abort()
    return web.Response(status=502)


async def unavailable(_call: Call) -> web.Response:
    """503 as a gateway says it."""
    return web.Response(status=503, text="<html>no backend</html>", content_type="text/html")


async def lost_sends(call: Call) -> web.Response | None:
    """Transactions are taken, as the node says, and never reach a block."""
    if call.method != "sendTransaction":
        return None
    transaction = VersionedTransaction.from_bytes(base64.b64decode(call.body["params"][0]))
    answer = {"jsonrpc": "2.0", "id": call.body.get("id"), "result": str(transaction.signatures[0])}
    return web.json_response(answer)


def _other(seed: str) -> str:
    """A field element that nothing has, in base58."""
    return str(Pubkey(b"\0" + hashlib.sha256(seed.encode()).digest()[1:]))


def _queues(result: Any) -> Iterator[dict[str, Any]]:
    for name in ("stateQueue", "addressQueue"):
        if isinstance(result, dict) and result.get(name):
            yield result[name]


def wrong_root(call: Call, result: Any) -> None:
    """Another root than the chain's."""
    if call.method == "getQueueElements":
        for queue in _queues(result):
            queue["initialRoot"] = _other(queue["initialRoot"])
    elif call.method in _PROOFS:
        for proof in result["value"]:
            proof["root"] = _other(proof["root"])


def wrong_leaf(call: Call, result: Any) -> None:
    """Elements that were never queued."""
    for queue in _queues(result) if call.method == "getQueueElements" else ():
        for part in (queue.get("outputQueue"), queue.get("inputQueue")):
            if part and part["accountHashes"]:
                part["accountHashes"][0] = _other(part["accountHashes"][0])
        if queue.get("addresses"):
            queue["addresses"][0] = _other(queue["addresses"][0])


def wrong_nodes(call: Call, result: Any) -> None:
    """A tree whose nodes do not lead to its root."""
    if call.method == "getQueueElements":
        for queue in _queues(result):
            for node in queue["nodes"][-1:]:
                node["hash"] = _other(node["hash"])
    elif call.method in _PROOFS:
        for proof in result["value"]:
            proof["proof"][0] = _other(proof["proof"][0])


def wrong_hash_chain(call: Call, result: Any) -> None:
    """Hash chains of other elements."""
    for queue in _queues(result) if call.method == "getQueueElements" else ():
        for part in (queue, queue.get("outputQueue"), queue.get("inputQueue")):
            if part and part.get("leavesHashChains"):
                part["leavesHashChains"] = [_other(chain) for chain in part["leavesHashChains"]]


def stale_sequence(call: Call, result: Any) -> None:
    """Sequence numbers of an earlier tree."""
    for queue in _queues(result) if call.method == "getQueueElements" else ():
        queue["rootSeq"] = max(0, queue["rootSeq"] - 5)


class Stale:
    """Answers of the past: what was said first about a tree or a leaf is said again, while the slot goes on."""

    def __init__(self) -> None:
        self._said: dict[str, Any] = {}

    def __call__(self, call: Call, result: Any) -> None:
        """Put the first answer in the place of the present one."""
        if call.method in ("getQueueElements", *_PROOFS):
            asked = call.body.get("params")
            subject = asked["tree"] if isinstance(asked, dict) else asked
            said = self._said.setdefault(f"{call.method} {json.dumps(subject)}", copy.deepcopy(result))
            result.clear()
            result.update(copy.deepcopy(said))
