"""The reference's published prover as a process, and a proxy for clients that use later names of its circuits."""

from __future__ import annotations

import contextlib
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import msgspec
from aiohttp import web
from aiohttp.test_utils import TestServer
from local_processes import free_port

LOADING_SECONDS = 480
EARLIER_NAMES = {"append": "append-with-proofs"}
"""What the circuits were called in version 0.27.0."""


@contextlib.contextmanager
def running_reference(binary: Path, keys: Path, log: Path, *circuits: str) -> Iterator[str]:
    """The prover over a folder of keys; gives its URL once it has loaded those of ``circuits`` (half a minute each)."""
    port, metrics_port = free_port(), free_port()
    words = ["--keys-dir", f"{keys}/", *(word for circuit in circuits for word in ("--circuit", circuit))]
    words += ["--prover-address", f"127.0.0.1:{port}", "--metrics-address", f"127.0.0.1:{metrics_port}"]
    with log.open("wb") as output:
        process = subprocess.Popen([str(binary), "start", *words], stdout=output, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + LOADING_SECONDS
        while not _answers(port):
            assert process.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < deadline, "the reference did not load its keys in time"
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


@contextlib.asynccontextmanager
async def earlier_names(prover_url: str) -> AsyncIterator[str]:
    """A proxy that forwards requests to a prover with the circuit names that it knows; yields its URL."""

    async def pass_on(request: web.Request) -> web.Response:
        body = await request.read()
        if request.method == "POST":
            members = msgspec.json.decode(body)
            members["circuitType"] = EARLIER_NAMES.get(members["circuitType"], members["circuitType"])
            body = msgspec.json.encode(members)
        async with session.request(request.method, f"{prover_url}{request.rel_url}", data=body) as answer:
            return web.Response(status=answer.status, body=await answer.read(), content_type=answer.content_type)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", pass_on)
    async with aiohttp.ClientSession() as session, TestServer(app) as server:
        yield str(server.make_url("")).rstrip("/")


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            return int(answer.status) == 200
    except (urllib.error.URLError, OSError):
        return False
