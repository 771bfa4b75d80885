"""The circuits that are compared with the reference, and clients that send their requests."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp
from prover_server import REQUEST_DEADLINE_S, ask

REQUESTS = Path(__file__).resolve().parents[1] / "tests" / "vectors" / "prover"
CASES = {
    "inclusion 32/1": "v2_inclusion_32_1",
    "non-inclusion 40/1": "v2_non-inclusion_40_1",
    "combined 32/40 1_1": "v2_combined_32_40_1_1",
}
BATCH_CASES = {
    "append 32/10": "batch_append_32_10",
    "update 32/10": "batch_update_32_10",
    "address-append 40/10": "batch_address-append_40_10",
}
"""Names of keys and requests by circuit."""
MODE = ("--run-mode", "local-rpc")
BATCH_MODE = tuple(
    word for name in ("append-with-proofs-test", "update-test", "address-append-test") for word in ("--circuit", name)
)
"""Options with which the reference loads the keys of the circuits above."""


def for_reference(body: bytes) -> bytes:
    """Return the request with the circuit name that the reference's release knows."""
    return re.sub(rb'("circuitType":\s*)"append"', rb'\1"append-with-proofs"', body)


def timed(port: int, body: bytes) -> float:
    """Return the seconds of one POST /prove on a new connection. Exits unless the answer is a proof."""
    start = time.perf_counter()
    ask(port, "POST", "/prove", body)
    return time.perf_counter() - start


def bodies(request: bytes) -> Iterator[bytes]:
    """Yield the same request without end, each time in other bytes, so that no proof is shared."""
    fields = json.loads(request)
    for number in itertools.count():
        yield json.dumps(fields | {"unknown": number}).encode()


async def one_round(port: int, clients: int, proofs: int, source: Iterator[bytes]) -> tuple[float, list[float], int]:
    """Let clients in closed loops send ``proofs`` requests. Return seconds, latencies, and the number of refusals."""
    latencies: list[float] = []
    refused = 0
    left = iter(range(proofs))
    timeout = aiohttp.ClientTimeout(total=REQUEST_DEADLINE_S)
    async with aiohttp.ClientSession(timeout=timeout) as session:

        async def client() -> None:
            nonlocal refused
            for _ in left:
                started = time.perf_counter()
                async with session.post(f"http://127.0.0.1:{port}/prove", data=next(source)) as response:
                    body = await response.read()
                if response.status == 200:
                    latencies.append(time.perf_counter() - started)
                elif response.status in (408, 503):
                    refused += 1
                else:
                    sys.exit(f"status {response.status}: {body[:300]!r}")

        started = time.perf_counter()
        await asyncio.gather(*(client() for _ in range(clients)))
        return time.perf_counter() - started, latencies, refused
