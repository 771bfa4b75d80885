"""A server of made-up key files on a free loopback port, with faults to order. It runs in a thread of its own."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from aiohttp import web

from shared.requests.circuit_id import CircuitId

Fault = Callable[[web.Request, bytes], Awaitable[web.StreamResponse]]
"""Answers a request for a file with these bytes, wrongly."""


class KeyServer:
    """Files by name. ``faults`` are used up one per GET of a file, then it is served well."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.checksums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in files.items())
        self.faults: dict[str, list[Fault]] = {}
        self.checksum_faults: list[Fault] = []
        self.gets: Counter[str] = Counter()
        self.ranges: list[str] = []
        self.sizes_known = True
        self.url = ""

    async def checksum_list(self, request: web.Request) -> web.StreamResponse:
        self.gets["CHECKSUM"] += 1
        if self.checksum_faults:
            return await self.checksum_faults.pop(0)(request, self.checksums.encode())
        return web.Response(text=self.checksums)

    async def file(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        data = self.files.get(name)
        if request.method == "HEAD":
            if data is None or not self.sizes_known:
                return web.Response(status=405)
            return web.Response(headers={"Content-Length": str(len(data))})
        self.gets[name] += 1
        if "Range" in request.headers:
            self.ranges.append(request.headers["Range"])
        if self.faults.get(name):
            return await self.faults[name].pop(0)(request, data or b"")
        if data is None:
            return web.Response(status=404)
        return await serve_range(request, data)


def published_files(keys_dir: Path, circuits: Collection[str]) -> dict[str, bytes]:
    """Return the key files of circuits by the names under which they are published."""
    found = {circuit: path for path in keys_dir.glob("*.key") if (circuit := CircuitId.from_key_file(path.name))}
    return {f"{circuit.name}.key": path.read_bytes() for circuit, path in found.items() if circuit.name in circuits}


async def serve_range(request: web.Request, data: bytes) -> web.StreamResponse:
    """Answer as a well-made server does, ranges included."""
    start = request.http_range.start or 0
    if not start:
        return web.Response(body=data)
    if start >= len(data):
        return web.Response(status=416)
    headers = {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"}
    return web.Response(status=206, body=data[start:], headers=headers)


def status(code: int, headers: dict[str, str] | None = None) -> Fault:
    """Answer with a status and nothing else."""

    async def answer(_: web.Request, __: bytes) -> web.StreamResponse:
        return web.Response(status=code, headers=headers)

    return answer


def truncated(keep: int) -> Fault:
    """Announce all bytes from the client's position, send ``keep`` of them and close the connection."""

    async def answer(request: web.Request, data: bytes) -> web.StreamResponse:
        start = request.http_range.start or 0
        headers = {"Content-Length": str(len(data) - start)}
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        response = web.StreamResponse(status=206 if start else 200, headers=headers)
        await response.prepare(request)
        await response.write(data[start : start + keep])
        assert request.transport is not None
        request.transport.close()
        return response

    return answer


def silent(keep: int) -> Fault:
    """Announce all bytes, send ``keep`` of them and nothing more."""

    async def answer(request: web.Request, data: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": str(len(data))})
        await response.prepare(request)
        await response.write(data[:keep])
        await asyncio.sleep(3600)
        return response

    return answer


def held(go_on: threading.Event) -> Fault:
    """Serve the file well, but not before the event is set."""

    async def answer(request: web.Request, data: bytes) -> web.StreamResponse:
        while not go_on.is_set():  # noqa: ASYNC110 - the event belongs to another thread
            await asyncio.sleep(0.02)
        return await serve_range(request, data)

    return answer


def wrong(data: bytes) -> Fault:
    """Serve other bytes."""

    async def answer(_: web.Request, __: bytes) -> web.StreamResponse:
        return web.Response(body=data)

    return answer


async def ignoring_ranges(_: web.Request, data: bytes) -> web.StreamResponse:
    """Serve the whole file whatever was asked for."""
    return web.Response(body=data)


async def at_another_place(request: web.Request, data: bytes) -> web.StreamResponse:
    """Answer 206 with bytes from the start of the file."""
    return web.Response(status=206, body=data, headers={"Content-Range": f"bytes 0-{len(data) - 1}/{len(data)}"})


async def without_length(request: web.Request, data: bytes) -> web.StreamResponse:
    """Serve the file in chunks, its size untold."""
    response = web.StreamResponse()
    response.enable_chunked_encoding()
    await response.prepare(request)
    await response.write(data)
    return response


@contextmanager
def running(server: KeyServer, tls: ssl.SSLContext | None = None) -> Iterator[KeyServer]:
    """Serve during the block, over ``tls`` if that is given; sets ``server.url``."""
    loop = asyncio.new_event_loop()
    ready = threading.Event()

    async def start() -> web.AppRunner:
        app = web.Application()
        app.router.add_get("/keys/CHECKSUM", server.checksum_list, allow_head=False)
        app.router.add_route("*", "/keys/{name}", server.file)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        server.url = f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}/keys"
        return runner

    def run() -> None:
        asyncio.set_event_loop(loop)
        runner = loop.run_until_complete(start())
        ready.set()
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=run, name="key server")
    thread.start()
    assert ready.wait(60)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
