"""Throughput and latency of the HTTP service beside the reference prover, with 1, 2, 4 and 8 clients at once.

Starts both servers on the published keys and lets closed-loop clients send to one after the other in turn: each round
is the same number of proofs from the same number of clients. ``--before`` adds another build of ours, to compare. Every
request has other bytes, so that nothing is shared or replayed. Prints proofs per second and latencies, and
appends them to a JSON-lines history: `make bench-service`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import aiohttp
from bench_server import OURS, running
from machine import keep, machine_facts
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

PROVER_ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROVER_ROOT / "scripts"))

import reference_fixtures  # noqa: E402 - found through the line above

VECTORS = PROVER_ROOT / "tests" / "vectors" / "prover"
HISTORY = PROVER_ROOT / "bench" / "service_history.jsonl"
CLIENTS = (1, 2, 4, 8)
REQUEST_DEADLINE_S = 300


@dataclass(frozen=True)
class Load:
    """What one server did for a number of clients; seconds, medians over the rounds for the rate."""

    server: str
    clients: int
    proofs: int
    per_second: float
    p50_s: float
    p95_s: float
    p99_s: float
    refused: int


def bodies(name: str) -> Iterator[bytes]:
    """The same request again and again, never in the same bytes."""
    request = json.loads((VECTORS / name).read_text())
    for number in itertools.count():
        yield json.dumps(request | {"unknown": number}).encode()


async def one_round(port: int, clients: int, proofs: int, source: Iterator[bytes]) -> tuple[float, list[float], int]:
    """Let clients send until so many proofs are made; returns seconds, latencies, refusals."""
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


def measure(
    ports: dict[str, int], numbers: Sequence[int], rounds: int, proofs: int, source: Iterator[bytes]
) -> list[Load]:
    """Interleave the servers: same numbers of clients, same number of proofs, in turn."""
    loads = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("rounds", total=len(numbers) * (rounds + 1) * len(ports))
        for clients in numbers:
            results: dict[str, list[tuple[float, list[float], int]]] = {name: [] for name in ports}
            for number in range(rounds + 1):
                for name, port in ports.items():
                    result = asyncio.run(one_round(port, clients, max(proofs, clients), source))
                    if number:  # the first round warms up
                        results[name].append(result)
                    progress.advance(bar)
            loads += [summary(name, clients, found) for name, found in results.items()]
    return loads


def summary(name: str, clients: int, found: list[tuple[float, list[float], int]]) -> Load:
    """Put the rounds of one server together."""
    latencies = sorted(latency for _, values, _ in found for latency in values)
    return Load(
        server=name,
        clients=clients,
        proofs=len(latencies),
        per_second=round(statistics.median(len(values) / seconds for seconds, values, _ in found), 3),
        p50_s=percentile(latencies, 50),
        p95_s=percentile(latencies, 95),
        p99_s=percentile(latencies, 99),
        refused=sum(refused for *_, refused in found),
    )


def percentile(values: list[float], percent: int) -> float:
    """Nearest rank; 0 of nothing."""
    return round(values[min(len(values) - 1, len(values) * percent // 100)], 4) if values else 0.0


def show(loads: list[Load]) -> None:
    """Print the table."""
    table = Table(title="POST /prove, closed loop, keys resident; the reference is gnark 0.8 in Go (0.27.0)")
    for heading in ("clients", "server", "proofs/s", "p50 s", "p95 s", "p99 s", "refused", "rate / reference"):
        table.add_column(heading, justify="left" if heading == "server" else "right")
    for clients, group in itertools.groupby(loads, key=lambda load: load.clients):
        found = list(group)
        for load in found:
            ratio = load.per_second / found[0].per_second if found[0].per_second else 0
            times = (f"{value:.3f}" for value in (load.p50_s, load.p95_s, load.p99_s))
            tail = f"{ratio:.2f}" if load is not found[0] else ""
            table.add_row(str(clients), load.server, f"{load.per_second:.2f}", *times, str(load.refused), tail)
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="measured rounds for each number of clients (default 5)")
    parser.add_argument("--proofs", type=int, default=16, help="proofs in a round (default 16)")
    parser.add_argument("--request", default="v2_inclusion_32_1.json", help="golden request (default %(default)s)")
    parser.add_argument("--clients", type=int, nargs="+", default=CLIENTS, help="numbers of clients (default 1 2 4 8)")
    parser.add_argument("--before", type=Path, help="the prover command of another build, which takes its turns, too")
    parser.add_argument("--history", type=Path, default=HISTORY, help="JSON-lines file to append to")
    options = parser.parse_args()
    keys_dir = reference_fixtures.proving_keys_dir()
    binary = str(reference_fixtures.prover_binary())
    with contextlib.ExitStack() as servers:
        started = {"reference": running(binary, keys_dir, "--run-mode", "local-rpc")}
        if options.before:
            started["before"] = running(str(options.before), keys_dir)
        started["ours"] = running(OURS, keys_dir)
        ports = {name: servers.enter_context(server).port for name, server in started.items()}
        loads = measure(ports, options.clients, options.rounds, options.proofs, bodies(options.request))
    show(loads)
    record = {**machine_facts(), "request": options.request, "loads": [asdict(load) for load in loads]}
    keep(options.history, record)
    return 0


if __name__ == "__main__":
    sys.exit(main())
