"""The load that one forester sustains: planning and staging at 10^8 leaves, RPC calls per light slot.

Snapshots come from a scripted indexer behind a real socket; they are read, checked, staged and written as proof
requests, and a simulated proof of each batch is kept in a journal: all that a forester does but prove and send. Times
are CPU seconds, medians. Then a forester runs on a local network, first idle, then with traffic, and its calls per
light slot of 10 slots (4 s) are counted. Nothing is judged; the exit status is 0 unless something fails.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer
from bench_report import Report
from process_figures import MIB, ProcessFigures
from rpc_calls import count_calls
from sparse_worlds import World, address_world, state_world

from forester.chain.tree_metadata import TreeKind
from forester.indexer.client import IndexerClient
from forester.indexer.types import Hash32
from forester.journal.database import Journal
from forester.journal.proofs import ProofStore
from forester.pipeline_v2.proof_ledger import stored_proof
from forester.pipeline_v2.staging.snapshots import read_snapshot, staging_of
from forester.prover_client.client import FinishedProof, encode_body
from shared.requests.proof_compression import CompressedProof

TREE = Hash32(bytes([1]) * 32)
SIMULATED = FinishedProof(CompressedProof(bytes(32), bytes(64), bytes(32)), 0)
ROUND = 4
"""Batches of one kind in a round, as `--max-batches-per-tree` has it when nothing is set."""


@dataclass(frozen=True)
class Load:
    """A kind of rounds; ``queue`` is the number of elements that a queue holds at most.

    Source of ``queue``, with the usual size of batches: forester/docs/reference/behaviour.md, "Tree discovery".
    """

    name: str
    kind: TreeKind
    batch: int
    queue: int
    make: Callable[[int, int], World]
    """The world of a seed and a next leaf index."""


LOADS = (
    Load("append", TreeKind.STATE_V2, 500, 30_000, lambda seed, leaf: state_world(seed, leaf, 500, ROUND, 0)),
    Load("nullify", TreeKind.STATE_V2, 500, 30_000, lambda seed, leaf: state_world(seed, leaf, 500, 0, ROUND)),
    Load("address", TreeKind.ADDRESS_V2, 250, 60_000, lambda seed, leaf: address_world(seed, leaf, 250, ROUND)),
)


async def one_round(load: Load, world: World, store: ProofStore) -> dict[str, float]:
    """Read, stage, write the requests and keep a simulated proof of each batch; return times and sizes."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=world.answer, content_type="application/json")

    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    written = 0
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        indexer = IndexerClient(session, str(server.make_url("/")))
        wall, began = time.perf_counter(), time.process_time()
        snapshot = await read_snapshot(indexer, load.kind, TREE, world.head, ROUND)
        read_at = time.process_time()
        if snapshot is None:
            raise SystemExit(f"{load.name}: the scripted indexer gave no batch")
        staging = await asyncio.to_thread(staging_of, snapshot, world.head, ROUND)
        if staging is None or staging.waiting != ROUND:
            raise SystemExit(f"{load.name}: {staging and staging.waiting} batches are staged, not {ROUND}")
        batches = []
        while (batch := await asyncio.to_thread(staging.next)) is not None:
            batches.append(batch)
        staged_at = time.process_time()
        for batch in batches:
            written += len(encode_body(batch.request, str(TREE), batch.sequence))
            await store.add([stored_proof(TREE, batch, SIMULATED.proof.data)])
        ended = time.process_time()
    return {
        "read_s": read_at - began,
        "stage_s": staged_at - read_at,
        "request_s": ended - staged_at,
        "cpu_s": ended - began,
        "wall_s": time.perf_counter() - wall,
        "answer_mb": len(world.answer) / 1e6,
        "request_mb": written / 1e6,
    }


async def measure(load: Load, rounds: int, leaf_index: int, queued: int) -> dict[str, Any]:
    """Measure rounds of one kind, the first of them once more for its memory.

    ``proofs_per_s`` is the rate at which staging uses one CPU fully; the last columns say what follows for ``queued``
    elements, which fill ``full_queues``.
    """
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
    medians = {name: statistics.median(cost[name] for cost in costs) for name in costs[0]}
    rate = first.elements / medians["cpu_s"]
    return {
        "round": f"{load.name} {load.batch}",
        **medians,
        "peak_mib": peak / MIB,
        "elements_per_s": rate,
        "proofs_per_s": rate / load.batch,
        f"s_of_{queued}": queued / rate,
        "full_queues": -(-queued // load.queue),
    }


async def run(options: argparse.Namespace, folder: Path) -> Report:
    """Measure rounds of each kind, then the calls of a forester."""
    costs = [await measure(load, options.rounds, options.leaf_index, options.queued) for load in LOADS]
    report = Report({f"rounds of {ROUND} batches at leaf {options.leaf_index:,}": [*costs]})
    slowest = min(costs, key=lambda cost: float(cost["elements_per_s"]))
    report.figures = {
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}",
        "largest_memory_mib": ProcessFigures(os.getpid()).peak_resident_bytes / MIB,
        "slowest_round": slowest["round"],
        "slowest_step": max(("read_s", "stage_s", "request_s"), key=lambda name: float(slowest[name])),
    }
    if not options.no_calls:
        report.tables["calls per light slot, ten trees, no subscription"] = [
            *await count_calls(options.seconds, folder)
        ]
    return report


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add = parser.add_argument
    add("--rounds", type=int, default=5, help="rounds of each kind (default 5)")
    add("--queued", type=int, default=10**6, help="elements to extrapolate to (default 1000000)")
    add("--leaf-index", type=int, default=10**8, help="leaves of the trees (default 100000000)")
    add("--seconds", type=float, default=32, help="seconds in which calls are counted, idle and busy each (default 32)")
    add("--no-calls", action="store_true", help="omit the calls on a local network")
