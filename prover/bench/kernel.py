"""Times of the kernel's parts: field products, bucket additions and multi-scalar multiplications, on one thread.

Builds native/bench/kernel_bench.c for the backend that this processor runs (or --backend), runs it and prints a table
and one line of JSON with the machine and the commit. Times are the shortest of several runs in processor time;
additions are counted, and "of bound" says which part of the time their field products would take alone. Names and
units: kernel-performance.md section 5. `make bench-kernel`; a few minutes on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from machine import machine_facts
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
BACKENDS = ("portable", "adx", "avx512", "ifma")
COLUMNS = ("name", "ns", "ms", "ns_per_point", "additions", "ns_per_addition", "of_bound")


def build(backend: str) -> Path:
    """The benchmark's program for one backend."""
    answer = subprocess.run(
        [ROOT / "prover/scripts/native", "bench", backend], stdout=subprocess.PIPE, text=True, check=True
    )
    return ROOT / answer.stdout.strip()


def measure(program: Path, g1_log2: int, g2_log2: int, runs: int) -> list[dict[str, float | str]]:
    """One record per measurement; what each has is in COLUMNS."""
    answer = subprocess.run(
        [program, str(g1_log2), str(g2_log2), str(runs)], stdout=subprocess.PIPE, text=True, check=True
    )
    return [json.loads(line) for line in answer.stdout.splitlines()]


def show(results: list[dict[str, float | str]], backend: str) -> None:
    """Print the records as a table."""
    table = Table(title=f"kernel, backend {backend}, one thread")
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == "name" else "right")
    for result in results:
        table.add_row(*(str(result.get(column, "")) for column in COLUMNS))
    Console(width=120).print(table)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=BACKENDS, help="default: the one that this processor runs")
    parser.add_argument("--g1", type=int, default=18, metavar="LOG2", help="points of the largest sum (default: 18)")
    parser.add_argument("--g2", type=int, default=16, metavar="LOG2", help="the same in G2 (default: 16)")
    parser.add_argument("--runs", type=int, default=8, help="runs of each sum (default: 8)")
    options = parser.parse_args()
    facts = machine_facts()
    backend = options.backend or str(facts["backend"])
    results = measure(build(backend), options.g1, options.g2, options.runs)
    show(results, backend)
    print(json.dumps({**facts, "backend": backend, "results": results}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
