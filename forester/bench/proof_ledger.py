"""Proxy between foresters and the prover that records which proofs each of them requested and received."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web
from forester_fleet import Link

MAX_BODY_BYTES = 64 << 20
AT_ONCE = 4
_OF_ONE_CONNECTION = frozenset(
    {"host", "connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"}
)


@dataclass(frozen=True)
class Entry:
    """A proof that a forester got."""

    member: int
    link: Link
    asked: float
    answered: float


@dataclass
class Ledger:
    """Entries in the order of their answers; requests that ended otherwise are counted by status."""

    entries: list[Entry] = field(default_factory=list)
    failures: Counter[int] = field(default_factory=Counter)

    def repeated(self) -> list[tuple[Entry, Entry]]:
        """Return proofs beyond the first of the same statement, of any forester, each with the previous one."""
        last: dict[Link, Entry] = {}
        pairs = []
        for entry in sorted(self.entries, key=lambda entry: entry.asked):
            if entry.link in last:
                pairs.append((last[entry.link], entry))
            last[entry.link] = entry
        return pairs


def link_of(body: bytes) -> Link:
    """Return the statement of a request."""
    request = json.loads(body)
    return str(request["circuitType"]), _hash(request["oldRoot"]), _hash(request["newRoot"])


def _passed(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _OF_ONE_CONNECTION}


def _hash(text: str) -> bytes:
    return int(text, 16).to_bytes(32, "big")


@contextlib.asynccontextmanager
async def running_ledger(ledger: Ledger, prover_url: str, *, proof_s: float = 0.0) -> AsyncIterator[str]:
    """Serve on a free port; a forester's prover is the URL that this gives and ``/`` and its number.

    Proofs take about ``proof_s`` seconds more, a few at a time, as those of a prover would that is not simulated.
    """
    room = asyncio.Semaphore(AT_ONCE)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(timeout=timeout, auto_decompress=False) as session:

        async def passed_on(request: web.Request) -> web.Response:
            asked, body = time.time(), await request.read()
            rest = request.path_qs.removeprefix(f"/{request.match_info['member']}")
            headers = _passed(request.headers)
            if request.method == "POST" and proof_s:
                async with room:
                    await asyncio.sleep(proof_s * random.uniform(0.6, 1.4))
            try:
                async with session.request(request.method, prover_url + rest, data=body, headers=headers) as answer:
                    content, status, answer_headers = await answer.read(), answer.status, _passed(answer.headers)
            except aiohttp.ClientError:
                ledger.failures[0] += 1
                if request.transport is not None:
                    request.transport.abort()
                return web.Response(status=502)
            if request.method == "POST":
                if status == 200:
                    member = int(request.match_info["member"])
                    ledger.entries.append(Entry(member, link_of(body), asked, time.time()))
                else:
                    ledger.failures[status] += 1
            return web.Response(body=content, status=status, headers=answer_headers)

        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_route("*", r"/{member:\d+}/{rest:.*}", passed_on)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            host, port = runner.addresses[0][:2]
            yield f"http://{host}:{port}"
        finally:
            await runner.cleanup()
