"""Honest clients and probes while hostile clients are connected: all are answered, with little more latency.

Starts `prover start` on the published keys. Honest clients prove and probes run, alternately without and with a process
of hostile clients: bodies that trickle, pipelined requests whose answers are never read, and headers that trickle on
the metrics address. Prints percentiles of both. Exit status 1 if an honest request or a probe fails, if a kind of
hostile client never connects, or if a p99 with them is more than --ratio times that without.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import random
import socket
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event

import aiohttp
import reference_fixtures
from bench_report import Report, percentile
from proof_requests import CASES, REQUESTS
from prover_server import OURS, REQUEST_DEADLINE_S, ServerProcess, running

REQUEST = json.loads((REQUESTS / f"{CASES['inclusion 32/1']}.json").read_text())
PROBES = ("/livez", "/readyz")
PROBE_PAUSE_S = 0.05
HONEST_CLIENTS = 2
RECONNECT_S = 5.0
SETTLE_S = 3.0
HOSTILE_CLIENTS = {"trickling body": 64, "unread answers": 32, "trickling probe": 300}
NOISE_S = 0.005
"""Scheduling differences of two processes that no client causes."""

Latencies = dict[str, list[float]]


@contextlib.asynccontextmanager
async def connection(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Open a connection with small system buffers; abort it at the end."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=client, limit=1024)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def trickle(port: int, first: bytes) -> None:
    """Send the start of a request, then a byte per second until the server closes the connection."""
    async with connection(port) as (reader, writer):
        writer.write(first)
        ended = asyncio.ensure_future(reader.read(1))
        try:
            while not ended.done():
                writer.write(b"x")
                await writer.drain()
                await asyncio.wait({ended}, timeout=1)
        finally:
            ended.cancel()


async def leave_answers(port: int) -> None:
    """Pipeline requests and read nothing until the server closes the connection."""
    async with connection(port) as (_, writer):
        while True:
            writer.write(100 * b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n")
            await writer.drain()


async def attack(server: ServerProcess, done: Counter[str]) -> None:
    """Run all hostile clients until cancelled; count connections by kind."""
    body = b"POST /prove HTTP/1.1\r\nHost: x\r\nContent-Length: 16777216\r\n\r\n"
    header = b"GET /livez HTTP/1.1\r\nX-Slow: "
    kinds: dict[str, Callable[[], Awaitable[None]]] = {
        "trickling body": lambda: trickle(server.port, body),
        "unread answers": lambda: leave_answers(server.port),
        "trickling probe": lambda: trickle(server.metrics_port, header),
    }

    async def client(kind: str) -> None:
        while True:
            done[kind] += 1
            with contextlib.suppress(OSError):
                await kinds[kind]()
            await asyncio.sleep(RECONNECT_S * (0.5 + random.random()))

    await asyncio.gather(*(client(kind) for kind, count in HOSTILE_CLIENTS.items() for _ in range(count)))


def hostile_process(server: ServerProcess, stop: Event, counts: Queue[Counter[str]]) -> None:
    """Attack until ``stop`` is set. The process shares the server's CPUs, so its own work is small."""
    done: Counter[str] = Counter()

    async def until_stopped() -> None:
        attacking = asyncio.ensure_future(attack(server, done))
        await asyncio.to_thread(stop.wait)
        attacking.cancel()
        await asyncio.gather(attacking, return_exceptions=True)

    asyncio.run(until_stopped())
    counts.put(done)


async def measure(server: ServerProcess, seconds: float, seed: int, failures: Counter[str]) -> Latencies:
    """Return latencies of proofs and probes by name; answers other than 200 are failures."""
    latencies: Latencies = defaultdict(list)
    deadline = time.monotonic() + seconds
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=REQUEST_DEADLINE_S)) as session:

        async def timed(name: str, method: str, url: str, body: bytes | None = None) -> None:
            started = time.perf_counter()
            try:
                async with session.request(method, url, data=body) as response:
                    await response.read()
                    status = str(response.status)
            except (aiohttp.ClientError, TimeoutError) as error:
                status = type(error).__name__
            latencies[name].append(time.perf_counter() - started)
            if status != "200":
                failures[f"{name}: {status}"] += 1

        async def prove(number: int) -> None:
            rng = random.Random(seed * 100 + number)
            while time.monotonic() < deadline:
                body = json.dumps(REQUEST | {"unknown": rng.getrandbits(64)}).encode()
                await timed("proof", "POST", f"http://127.0.0.1:{server.port}/prove", body)

        async def probe(path: str) -> None:
            while time.monotonic() < deadline:
                await timed(path, "GET", f"http://127.0.0.1:{server.metrics_port}{path}")
                await asyncio.sleep(PROBE_PAUSE_S)

        await asyncio.gather(*(prove(number) for number in range(HONEST_CLIENTS)), *(probe(path) for path in PROBES))
    return latencies


def with_hostile(
    server: ServerProcess, seconds: float, seed: int, failures: Counter[str]
) -> tuple[Latencies, Counter[str]]:
    """Return latencies while hostile clients run, and their connections by kind."""
    context = multiprocessing.get_context("spawn")
    stop, counts = context.Event(), context.Queue()
    process = context.Process(target=hostile_process, args=(server, stop, counts))
    process.start()
    try:
        time.sleep(min(SETTLE_S, seconds))
        latencies = asyncio.run(measure(server, seconds, seed, failures))
    finally:
        stop.set()
        done = counts.get(timeout=60)
        process.join()
    return latencies, done


def judge(alone: Latencies, hostile: Latencies, done: Counter[str], failures: Counter[str], ratio: float) -> Report:
    """Return percentiles without and with hostile clients, and what they must be; a ratio of 0 ignores latencies."""
    report = Report({"latencies": []}, {"hostile connections": dict(done)})
    report.require("honest requests and probes are answered", not failures, dict(failures))
    missing = [kind for kind in HOSTILE_CLIENTS if not done[kind]]
    report.require("every kind of hostile client connects", not missing, missing or "all")
    for name, quiet in alone.items():
        loud = hostile[name]
        p50, p50_with = statistics.median(quiet), statistics.median(loud)
        p99, p99_with = percentile(quiet, 99), percentile(loud, 99)
        row = {"p50_ms": p50, "p50_ms_with": p50_with, "p99_ms": p99, "p99_ms_with": p99_with}
        counts = {"request": name, "count": len(quiet), "count_with": len(loud)}
        report.tables["latencies"].append(counts | {column: round(1000 * s, 1) for column, s in row.items()})
        kept = not ratio or p99_with <= max(ratio * p99, p99 + NOISE_S)
        report.require(f"{name}: p99 at most {ratio:g} times that without", kept, f"{p99_with / p99:.2f}")
    return report


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("--seconds", type=float, default=30, help="seconds of each measurement (default 30)")
    parser.add_argument("--rounds", type=int, default=3, help="measurements without and with (default 3)")
    parser.add_argument("--ratio", type=float, default=1.5, help="tolerated growth of p99, 0 for any (default 1.5)")


def run(options: argparse.Namespace) -> Report:
    """Measure alternately without and with hostile clients."""
    alone: Latencies = defaultdict(list)
    hostile: Latencies = defaultdict(list)
    done: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    patience = {f"PROVER_PROVING__{name}_DEADLINE_S": str(REQUEST_DEADLINE_S) for name in ("MERKLE", "BATCH")}
    with running(OURS, reference_fixtures.proving_keys_dir(), variables=patience) as server:
        asyncio.run(measure(server, 1, 0, failures))
        for number in range(options.rounds):
            for name, values in asyncio.run(measure(server, options.seconds, 2 * number + 1, failures)).items():
                alone[name] += values
            latencies, connected = with_hostile(server, options.seconds, 2 * number + 2, failures)
            for name, values in latencies.items():
                hostile[name] += values
            done += connected
    return judge(alone, hostile, done, failures, options.ratio)
