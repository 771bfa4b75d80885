"""Time and memory of each circuit alone: witness, latency by threads, throughput, loading.

Prepares the published keys of three small circuits (with --batch also development keys of the batches of 10) as
`prover keys prepare` does by default, folded and without tables. Measures each in its own process, pinned to 1, 2, 4, …
CPUs. Prints a table and one line of JSON with machine and commit, which is appended to a history. Names in it:
witness_, prove_…_{threads}t (p50, p95), prove_tput_, key_load_ (cold and warm) and rss_.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import key_preparation
import reference_batch_keys
import reference_fixtures
from machine import keep, machine_facts
from proof_requests import BATCH_CASES, CASES, REQUESTS
from prove_alone import Alone, measure
from rich.console import Console
from rich.progress import track
from rich.table import Table

MIB = 2**20
HISTORY = Path(__file__).with_name("circuits_history.jsonl")


def powers_of_two(most: int) -> Iterator[int]:
    """Yield 1, 2, 4, … below ``most``, and ``most``."""
    cores = 1
    while cores < most:
        yield cores
        cores *= 2
    yield most


def records(circuit: str, runs: Sequence[Alone]) -> Iterator[dict[str, object]]:
    """Yield the named measurements of one circuit; milliseconds, proofs per second, seconds, MiB."""
    for run in runs:
        times = {"p50_ms": round(run.p50 * 1e3, 2), "p95_ms": round(run.p95 * 1e3, 2)}
        yield {"name": f"prove_{circuit}_{run.cores}t", **times, "processor_ms": round(run.processor * 1e3, 2)}
    last = runs[-1]
    yield {"name": f"prove_tput_{circuit}", "threads": last.cores, "proofs_per_s": round(last.proofs_per_s, 3)}
    yield {"name": f"witness_{circuit}", "ms": round(last.witness * 1e3, 3), "threads": last.cores}
    yield {"name": f"key_load_{circuit}", "cold_s": round(last.load_cold, 4), "warm_s": round(last.load_warm, 4)}
    memory = {"loaded": last.loaded_bytes, "proof": last.scratch_bytes, "peak": last.peak_resident_bytes}
    yield {"name": f"rss_{circuit}", **{f"{what}_mib": round(size / MIB, 1) for what, size in memory.items()}}


def show(found: dict[str, list[Alone]]) -> None:
    """Print one row per circuit and number of CPUs."""
    table = Table(title="Each circuit alone, key resident (ms; memory in MiB)")
    headings = ("threads", "p50", "p95", "CPU", "witness", "proofs/s", "load cold", "warm", "a proof", "peak")
    table.add_column("circuit")
    for heading in headings:
        table.add_column(heading, justify="right")
    for circuit, runs in found.items():
        for run in runs:
            times = (run.p50, run.p95, run.processor, run.witness)
            cells = [f"{seconds * 1e3:.1f}" for seconds in times]
            loads = [f"{seconds * 1e3:.1f}" for seconds in (run.load_cold, run.load_warm)]
            memory = [f"{size / MIB:.0f}" for size in (run.scratch_bytes, run.peak_resident_bytes)]
            table.add_row(circuit, str(run.cores), *cells, f"{run.proofs_per_s:.2f}", *loads, *memory)
    Console(width=None if sys.stdout.isatty() else 130).print(table)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("--batch", action="store_true", help="also the batches of 10 (keys of hundreds of MB)")
    parser.add_argument("--rounds", type=int, default=20, help="measured proofs of each (default 20)")
    key_preparation.add_preparation(parser)
    parser.add_argument("--history", type=Path, default=HISTORY, metavar="FILE", help="JSON-lines file to append to")


def main(options: argparse.Namespace) -> int:
    """Measure, print, and return the exit status."""
    facts = machine_facts()
    words = key_preparation.preparation(options)
    cores = list(powers_of_two(len(os.sched_getaffinity(0))))
    found: dict[str, list[Alone]] = {}
    folded: dict[str, bool] = {}
    with key_preparation.prepared_folders(options) as (small, batch):
        sources = [(CASES, reference_fixtures.proving_keys_dir(), small)]
        if options.batch:
            sources.append((BATCH_CASES, reference_batch_keys.batch_keys_dir(), batch))
        for cases, keys, folder in sources:
            key_preparation.prepare(cases.values(), keys, folder, *words)
            folded |= key_preparation.folded_keys(keys, folder)
            for name in track(cases.values(), "circuits", console=Console(stderr=True)):
                request = REQUESTS / f"{name}.json"
                circuit = name.removeprefix("v2_").replace("-", "_")
                key = key_preparation.key_of(keys, name)
                found[circuit] = [measure(key, folder, request, count, options.rounds) for count in cores]
    show(found)
    results = [record for circuit, runs in found.items() for record in records(circuit, runs)]
    settings = {"table_mib": options.table_memory, "folded": folded, "rounds": options.rounds}
    record = {**facts, **settings, "results": results}
    print(key_preparation.description(folded, words))
    print(json.dumps(record))
    keep(options.history, record)
    return 0
