"""Throughput and latency of the HTTP service and of the reference, with 1, 2, 4 and 8 clients.

Starts both servers on the published keys. Closed-loop clients send to them alternately; each round has the same number
of proofs and clients. --before adds another build of our prover. No two requests have the same bytes, so no proof is
shared. Prints proofs per second and latencies, and appends them to a history.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import reference_fixtures
from bench_server import OURS, running
from machine import keep, machine_facts
from proof_requests import REQUESTS, bodies, one_round
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

HISTORY = Path(__file__).with_name("service_history.jsonl")
CLIENTS = (1, 2, 4, 8)


@dataclass(frozen=True)
class Load:
    """Proofs of one server for a number of clients; seconds; the rate is the median of the rounds."""

    server: str
    clients: int
    proofs: int
    per_second: float
    p50_s: float
    p95_s: float
    p99_s: float
    refused: int


def measure(
    ports: dict[str, int], numbers: Sequence[int], rounds: int, proofs: int, source: Iterator[bytes]
) -> list[Load]:
    """Measure the servers alternately, each round with the same clients and number of proofs."""
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
    """Combine the rounds of one server."""
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
    """Return a percentile of ascending values by nearest rank; 0 without values."""
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


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("--rounds", type=int, default=5, help="measured rounds for each number of clients (default 5)")
    parser.add_argument("--proofs", type=int, default=16, help="proofs in a round (default 16)")
    parser.add_argument("--request", default="v2_inclusion_32_1.json", help="golden request (default %(default)s)")
    parser.add_argument("--clients", type=int, nargs="+", default=CLIENTS, help="numbers of clients (default 1 2 4 8)")
    parser.add_argument(
        "--before", type=Path, help="the prover command of another build, measured alternately with the others"
    )
    parser.add_argument("--history", type=Path, default=HISTORY, help="JSON-lines file to append to")


def main(options: argparse.Namespace) -> int:
    """Measure, print, and return the exit status."""
    keys_dir = reference_fixtures.proving_keys_dir()
    binary = str(reference_fixtures.prover_binary())
    with contextlib.ExitStack() as servers:
        started = {"reference": running(binary, keys_dir, "--run-mode", "local-rpc")}
        if options.before:
            started["before"] = running(str(options.before), keys_dir)
        started["ours"] = running(OURS, keys_dir)
        ports = {name: servers.enter_context(server).port for name, server in started.items()}
        loads = measure(
            ports, options.clients, options.rounds, options.proofs, bodies((REQUESTS / options.request).read_bytes())
        )
    show(loads)
    record = {**machine_facts(), "request": options.request, "loads": [asdict(load) for load in loads]}
    keep(options.history, record)
    return 0
