"""The load that one forester sustains: planning and staging at 10^8 leaves, RPC calls per light slot.

Snapshots come from a scripted indexer behind a real socket; they are read, checked, staged and written as proof
requests, and a simulated proof of each batch is kept in a journal: all that a forester does but prove and send.
Then a forester runs on a local network, first idle, then with traffic, and its calls are counted. Nothing is judged;
the exit status is 0 unless something fails.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import resource
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer
from rich.console import Console
from rich.table import Table
from rpc_calls import CallRates, count_calls
from sparse_worlds import World, address_world, state_world

from forester.chain.tree_metadata import TreeKind
from forester.indexer.client import IndexerClient
from forester.indexer.types import Hash32
from forester.journal.database import Journal
from forester.journal.proofs import ProofStore
from forester.pipeline_v2.proof_cache import stored_proof
from forester.pipeline_v2.tree_kinds import strategy_of
from forester.prover_client.client import FinishedProof, encode_body
from forester.prover_client.compression import CompressedProof

MIB = 2**20
TREE = Hash32(bytes([1]) * 32)
SIMULATED = FinishedProof(CompressedProof(bytes(32), bytes(64), bytes(32)), 0)
STATE_BATCH, ADDRESS_BATCH = 500, 250
ROUND = 4
"""Batches of one kind in a round, as `--max-batches-per-tree` has it when nothing is set."""
STATE_QUEUE, ADDRESS_QUEUE = 30_000, 60_000
"""Elements that a queue holds at most, with the usual size of batches.

Source: forester/docs/reference/behaviour.md, "Tree discovery".
"""


@dataclass(frozen=True)
class Load:
    """A kind of rounds."""

    name: str
    kind: TreeKind
    batch: int
    queue: int
    make: Callable[[int, int], World]
    """The world of a seed and a next leaf index; ``queue`` is the room of one queue."""


def _append_world(seed: int, leaf_index: int) -> World:
    return state_world(seed, leaf_index, STATE_BATCH, ROUND, 0)


def _nullify_world(seed: int, leaf_index: int) -> World:
    return state_world(seed, leaf_index, STATE_BATCH, 0, ROUND)


def _address_world(seed: int, leaf_index: int) -> World:
    return address_world(seed, leaf_index, ADDRESS_BATCH, ROUND)


LOADS = (
    Load("append", TreeKind.STATE_V2, STATE_BATCH, STATE_QUEUE, _append_world),
    Load("nullify", TreeKind.STATE_V2, STATE_BATCH, STATE_QUEUE, _nullify_world),
    Load("address", TreeKind.ADDRESS_V2, ADDRESS_BATCH, ADDRESS_QUEUE, _address_world),
)


@dataclass(frozen=True)
class RoundCost:
    """CPU seconds, unless named otherwise; sizes in bytes."""

    elements: int
    read_s: float
    stage_s: float
    request_s: float
    wall_s: float
    answer_bytes: int
    request_bytes: int

    @property
    def cpu_s(self) -> float:
        """CPU seconds of all steps."""
        return self.read_s + self.stage_s + self.request_s


@dataclass(frozen=True)
class LoadCost:
    """Many rounds of one kind: medians, and what follows for ``queued`` elements, which fill ``queued_trees`` queues.

    ``proofs_per_s`` is the rate at which staging uses one CPU fully.
    """

    name: str
    batch: int
    rounds: int
    read_s: float
    stage_s: float
    request_s: float
    wall_s: float
    answer_bytes: int
    request_bytes: int
    peak_bytes: int
    elements_per_cpu_s: float
    proofs_per_s: float
    queued: int
    queued_cpu_s: float
    queued_trees: int


async def one_round(load: Load, world: World, store: ProofStore) -> RoundCost:
    """Read, stage, write the requests and keep a simulated proof of each batch."""

    async def tell(_: web.Request) -> web.Response:
        return web.Response(body=world.answer, content_type="application/json")

    app = web.Application()
    app.router.add_post("/{path:.*}", tell)
    strategy, written = strategy_of(load.kind), 0
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        indexer = IndexerClient(session, str(server.make_url("/")))
        wall, cpu = time.perf_counter(), time.process_time()
        snapshot = await strategy.read(indexer, TREE, world.head, ROUND)
        read_at = time.process_time()
        if snapshot is None:
            raise SystemExit(f"{load.name}: the scripted indexer gave no batch")
        staging = await asyncio.to_thread(strategy.stage, snapshot, world.head, ROUND)
        if staging is None or staging.waiting != ROUND:
            raise SystemExit(f"{load.name}: {staging and staging.waiting} batches are staged, not {ROUND}")
        batches = []
        while (batch := await asyncio.to_thread(staging.next)) is not None:
            batches.append(batch)
        staged_at = time.process_time()
        for batch in batches:
            written += len(encode_body(batch.request, str(TREE), batch.sequence))
            await store.add([stored_proof(TREE, batch, SIMULATED)])
        ended = time.process_time()
    spent = (read_at - cpu, staged_at - read_at, ended - staged_at, time.perf_counter() - wall)
    return RoundCost(world.elements, *spent, len(world.answer), written)


async def measure(load: Load, rounds: int, leaf_index: int, queued: int) -> LoadCost:
    """Measure rounds of one kind; repeat the first of them for its memory."""
    with tempfile.TemporaryDirectory() as folder:
        async with await Journal.open(Path(folder) / "journal.sqlite") as journal:
            store = ProofStore(journal)
            first = load.make(0, leaf_index)
            await one_round(load, first, store)  # what is imported and cached at the first use
            tracemalloc.start()
            await one_round(load, first, store)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            costs = [await one_round(load, load.make(seed, leaf_index), store) for seed in range(1, rounds + 1)]
    cpu_s = statistics.median(cost.cpu_s for cost in costs)
    rate = first.elements / cpu_s
    return LoadCost(
        name=load.name,
        batch=load.batch,
        rounds=rounds,
        read_s=statistics.median(cost.read_s for cost in costs),
        stage_s=statistics.median(cost.stage_s for cost in costs),
        request_s=statistics.median(cost.request_s for cost in costs),
        wall_s=statistics.median(cost.wall_s for cost in costs),
        answer_bytes=max(cost.answer_bytes for cost in costs),
        request_bytes=max(cost.request_bytes for cost in costs),
        peak_bytes=peak,
        elements_per_cpu_s=rate,
        proofs_per_s=rate / load.batch,
        queued=queued,
        queued_cpu_s=queued / rate,
        queued_trees=-(-queued // load.queue),
    )


def print_costs(console: Console, costs: list[LoadCost], leaf_index: int) -> None:
    table = Table(
        *("round", "read s", "stage s", "requests s", "wall s", "answer MB", "requests MB", "peak MiB"),
        *("elements/s", "proofs/s"),
        *(f"{costs[0].queued:,} queued", "full queues"),
        title=f"Rounds of {ROUND} batches at leaf {leaf_index:,}; CPU seconds, medians",
    )
    for cost in costs:
        seconds = [f"{value:.3f}" for value in (cost.read_s, cost.stage_s, cost.request_s, cost.wall_s)]
        sizes = [f"{cost.answer_bytes / 1e6:.1f}", f"{cost.request_bytes / 1e6:.1f}", f"{cost.peak_bytes / MIB:.0f}"]
        whole = [
            f"{cost.elements_per_cpu_s:,.0f}",
            f"{cost.proofs_per_s:.1f}",
            f"{cost.queued_cpu_s:,.0f} s",
            str(cost.queued_trees),
        ]
        table.add_row(f"{cost.name} {cost.batch}", *seconds, *sizes, *whole)
    console.print(table)


def print_calls(console: Console, rates: list[CallRates]) -> None:
    table = Table(
        *("forester", "light slots", "new leaves", "RPC calls", "of indexer", "of prover", "most frequent"),
        title="Calls per light slot of 10 slots (4 s), ten trees of a local network, no subscription",
    )
    for rate in rates:
        most = ", ".join(f"{name} {count:.2f}" for name, count in list(rate.rpc_by_method.items())[:5])
        counts = (rate.rpc, rate.indexer, rate.prover)
        shown = [f"{count:.2f}" for count in counts]
        table.add_row(rate.name, f"{rate.light_slots:.1f}", str(rate.leaves), *shown, most)
    console.print(table)


def bottleneck(costs: list[LoadCost]) -> str:
    """Return a sentence on the step that limits one process if provers and node keep up."""
    slowest = min(costs, key=lambda cost: cost.elements_per_cpu_s)
    steps = {"reading": slowest.read_s, "staging": slowest.stage_s, "writing requests": slowest.request_s}
    step = max(steps, key=lambda name: steps[name])
    return (
        f"Bottleneck of the process: {step} of {slowest.name} batches, {slowest.elements_per_cpu_s:,.0f} elements/s on "
        f"one CPU, a batch in {slowest.batch / slowest.elements_per_cpu_s:.2f} s. Provers are the bottleneck of "
        "the whole unless all of them together give such proofs faster."
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each kind (default 5)")
    parser.add_argument("--queued", type=int, default=10**6, help="elements to extrapolate to (default 1000000)")
    parser.add_argument("--leaf-index", type=int, default=10**8, help="leaves of the trees (default 100000000)")
    parser.add_argument(
        "--seconds", type=float, default=32, help="seconds in which calls are counted, idle and busy each"
    )
    parser.add_argument("--no-calls", action="store_true", help="omit the calls on a localnet")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")


def main(options: argparse.Namespace) -> int:
    """Measure and print; return 0."""
    costs = [asyncio.run(measure(load, options.rounds, options.leaf_index, options.queued)) for load in LOADS]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    rates = [] if options.no_calls else asyncio.run(count_calls(options.seconds))
    machine = {"machine": platform.machine(), "processors": os.cpu_count(), "load_average": os.getloadavg()[0]}
    if options.json:
        found = {"machine": machine, "rounds": [asdict(cost) for cost in costs], "largest_bytes": memory}
        print(
            json.dumps(found | {"calls": [asdict(rate) for rate in rates], "bottleneck": bottleneck(costs)}, indent=2)
        )
        return 0
    console = Console(width=None if sys.stdout.isatty() else 160)
    print_costs(console, costs, options.leaf_index)
    console.print(f"Largest memory of this process, its scripted indexer included: {memory / MIB:.0f} MiB")
    if rates:
        print_calls(console, rates)
    console.print(bottleneck(costs))
    return 0
