"""Growth of a proof's time and memory with the batch size and with CPUs, compared with a model.

Makes keys of batch append at height 32 for each of --sizes (`prover setup`, development keys), maps their prepared
files, not folded, and proves a generated request with each of --cores in its own process, pinned to as many CPUs.
Prints medians, the working memory, the peak resident memory, and the exponents that fit: 1 means that twice the
constraints take twice as long. The model is the CPU time of all stages after the witness: sums at the rate per point of
their size, and six transforms at the rate per butterfly, as the last `make bench-kernel` on this CPU model measured
them. Results are appended to a history. A batch of 100 takes a minute of setup and 2 GB of disk; Linux only.
"""

from __future__ import annotations

import argparse
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench_server import OURS
from machine import keep, machine_facts, newest_here
from prove_alone import Alone, measure
from rich.console import Console
from rich.table import Table

from prover.kernel.engine import Engine
from prover.keys.prepared import prepared_keys

SIZES = (2, 10, 50, 100)
CORES = (1, 2)
TRANSFORMS = 6
HISTORY = Path(__file__).with_name("growth_history.jsonl")
RATES = Path(__file__).with_name("kernel_history.jsonl")

Rates = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Measured:
    """One size on a number of CPUs; ``model_s`` is None without rates."""

    size: int
    run: Alone
    model_s: float | None


def rates_of(record: Mapping[str, Any] | None) -> Rates:
    """Return the measurements of a run of bench-kernel by name; none without a run."""
    return {one["name"]: one for one in record["results"]} if record else {}


def rate(rates: Rates, name: str, column: str, count: int) -> float:
    """Return nanoseconds at ``count`` elements, interpolated by logarithm; beyond the measured sizes the nearest."""
    sizes = ((key.rpartition("_"), record) for key, record in rates.items())
    known = {int(log2): record[column] for (kind, _, log2), record in sizes if kind == name}
    log = min(max(math.log2(max(count, 1)), min(known)), max(known))
    low = max(log2 for log2 in known if log2 <= log)
    high = min(log2 for log2 in known if log2 >= log)
    return known[low] if low == high else known[low] + (known[high] - known[low]) * (log - low) / (high - low)


def model_seconds(run: Alone, rates: Rates) -> float:
    """Return the CPU seconds of the sums over A, K, Z in G1 and B in G2, and of six transforms."""
    lists = (run.points_a, run.points_k, run.points_z)
    g1 = sum(count * rate(rates, "msm_g1", "ns_per_point", count) for count in lists)
    g2 = run.points_b * rate(rates, "msm_g2", "ns_per_point", run.points_b)
    butterflies = run.domain_size // 2 * math.log2(run.domain_size)
    return (g1 + g2 + TRANSFORMS * butterflies * rate(rates, "ntt", "ns_per_butterfly", run.domain_size)) / 1e9


def make_key(folder: Path, size: int) -> tuple[Path, Path]:
    """Make and prepare a key of one batch size; return it and a request."""
    key, request = folder / f"batch_append_32_{size}.key", folder / f"{size}.json"
    sizes = ("--append-tree-height", "32", "--append-batch-size", str(size))
    outputs = ("--output", str(key), "--output-vkey", str(key.with_suffix(".vkey")))
    subprocess.run([OURS, "setup", "--circuit", "append", *sizes, *outputs], check=True, stdout=subprocess.DEVNULL)
    made_up = [OURS, "gen-test-params", "--circuit", "append", "--batch-size", str(size), "--seed", "growth"]
    request.write_bytes(subprocess.run(made_up, check=True, stdout=subprocess.PIPE).stdout)
    with Engine() as engine:
        prepared_keys.prepare(engine, key, folder)
    return key, request


def measure_all(
    sizes: Sequence[int], cores: Sequence[int], rounds: int, scratch: Path | None, rates: Rates
) -> list[Measured]:
    """Measure each size on each number of CPUs."""
    found = []
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        folder = Path(name)
        for size in sizes:
            print(f"batch of {size}", file=sys.stderr)
            key, request = make_key(folder, size)
            for count in cores:
                run = measure(key, folder, request, count, rounds)
                found.append(Measured(size, run, model_seconds(run, rates) if rates else None))
            for path in folder.iterdir():
                path.unlink()
    return found


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """Return b of y = a x^b by least squares of the logarithms."""
    logs = [(math.log(x), math.log(y)) for x, y in points]
    return statistics.linear_regression(*zip(*logs, strict=True)).slope


def show(found: Sequence[Measured]) -> None:
    """Print the table and the exponents."""
    table = Table(title="Batch append at height 32: one proof, key resident")
    times_of = ("s", "CPU s", "µs a constraint", "witness ms", "measured / model")
    for heading in ("batch", "CPUs", "constraints", *times_of, "scratch MiB", "peak MiB"):
        table.add_column(heading, justify="right")
    for one in found:
        run = one.run
        memory = f"{run.scratch_bytes / 2**20:.0f}", f"{run.peak_resident_bytes / 2**20:.0f}"
        each = f"{run.processor / run.constraints * 1e6:.2f}"
        model = f"{(run.processor - run.witness) / one.model_s:.2f}" if one.model_s else ""
        times = f"{run.p50:.3f}", f"{run.processor:.3f}", each, f"{run.witness * 1e3:.1f}", model
        table.add_row(str(one.size), str(run.cores), f"{run.constraints:,}", *times, *memory)
    Console(width=None if sys.stdout.isatty() else 130).print(table)
    for cores in sorted({one.run.cores for one in found}):
        own = [one.run for one in found if one.run.cores == cores]
        if len(own) > 1:
            time_grows = exponent([(run.constraints, run.p50) for run in own])
            memory_grows = exponent([(run.constraints, run.peak_resident_bytes) for run in own])
            print(f"{cores} CPUs: time grows as constraints^{time_grows:.2f}, memory as ^{memory_grows:.2f}")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="batch sizes (default 2 10 50 100)")
    parser.add_argument("--cores", type=int, nargs="+", default=CORES, help="numbers of CPUs (default 1 2)")
    parser.add_argument("--rounds", type=int, default=10, help="measured proofs of each (default 10)")
    parser.add_argument("--scratch", type=Path, help="folder for the keys (default: the system's)")
    parser.add_argument("--rates", type=Path, default=RATES, metavar="FILE", help="history of bench-kernel")
    parser.add_argument("--history", type=Path, default=HISTORY, metavar="FILE", help="JSON-lines file to append to")


def main(options: argparse.Namespace) -> int:
    """Measure, print, and return the exit status."""
    facts = machine_facts()
    rates = rates_of(newest_here(options.rates))
    found = measure_all(options.sizes, options.cores, options.rounds, options.scratch, rates)
    show(found)
    keep(options.history, {**facts, "results": [asdict(one) for one in found]})
    return 0
