"""Costs of each circuit in this prover: witness, latency by threads, throughput, loading, memory.

Prepares the published keys of three small circuits (and, with --batch, keys of the batches of 10 that were made here)
as `prover keys prepare` does by default, folded and without tables, and measures each in a process of its own, pinned
to 1, 2, 4, … CPUs. Prints a table and one line of JSON with machine and commit, which is appended to a history. Its
names: witness_, prove_…_{threads}t (p50, p95), prove_tput_, key_load_ (cold and warm) and rss_. `make bench-circuits`;
run it on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import compare_reference  # before the fixtures: shows the way to them
import reference_batch_keys
import reference_fixtures
from machine import keep, machine_facts
from prove_alone import Alone, measure
from rich.console import Console
from rich.progress import track
from rich.table import Table

MIB = 2**20
HISTORY = Path(__file__).with_name("circuits_history.jsonl")


def powers_of_two(most: int) -> Iterator[int]:
    """1, 2, 4, … and ``most`` itself."""
    cores = 1
    while cores < most:
        yield cores
        cores *= 2
    yield most


def records(circuit: str, runs: Sequence[Alone]) -> Iterator[dict[str, object]]:
    """The measurements of one circuit by their names; milliseconds, proofs per second, seconds, MiB."""
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
    """Print one row per circuit and number of processors."""
    table = Table(title="Each circuit alone, key resident (ms; memory in MiB)")
    headings = ("threads", "p50", "p95", "processor", "witness", "proofs/s", "load cold", "warm", "a proof", "peak")
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


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", action="store_true", help="the batches of 10, too (keys of hundreds of MB)")
    parser.add_argument("--rounds", type=int, default=20, help="measured proofs of each (default 20)")
    compare_reference.add_preparation(parser)
    parser.add_argument("--history", type=Path, default=HISTORY, metavar="FILE", help="JSON-lines file to append to")
    options = parser.parse_args()
    facts = machine_facts()
    words = compare_reference.preparation(options)
    cores = list(powers_of_two(len(os.sched_getaffinity(0))))
    found: dict[str, list[Alone]] = {}
    folded: dict[str, bool] = {}
    with compare_reference.prepared_folders(options) as (small, batch):
        sources = [(compare_reference.CASES, reference_fixtures.proving_keys_dir(), small)]
        if options.batch:
            sources.append((compare_reference.BATCH_CASES, reference_batch_keys.batch_keys_dir(), batch))
        for cases, keys, folder in sources:
            compare_reference.prepare(cases, keys, folder, *words)
            folded |= compare_reference.folded_keys(keys, folder)
            for name in track(cases.values(), "circuits", console=Console(stderr=True)):
                request = compare_reference.REQUESTS / f"{name}.json"
                circuit = name.removeprefix("v2_").replace("-", "_")
                key = compare_reference.key_of(keys, name)
                found[circuit] = [measure(key, folder, request, count, options.rounds) for count in cores]
    show(found)
    results = [record for circuit, runs in found.items() for record in records(circuit, runs)]
    settings = {"table_mib": options.table_memory, "folded": folded, "rounds": options.rounds}
    record = {**facts, **settings, "results": results}
    print(compare_reference.told(folded, words))
    print(json.dumps(record))
    keep(options.history, record)
    return 0


if __name__ == "__main__":
    sys.exit(main())
