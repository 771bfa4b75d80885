"""How the time and memory of a proof grow with the batch and with the processors.

Makes keys of batch append at height 32 for each of --sizes (`prover setup`, development keys), maps their prepared
forms, and proves a made-up request with each of --cores in a process of its own, pinned to as many processors. Prints
medians, the working memory, the peak resident memory, and the exponents that fit: 1 means that twice the constraints
take twice as long. A batch of 50 takes a minute of setup and 1 GB of disk; Linux only.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench_server import OURS
from machine import machine_facts
from rich.console import Console
from rich.table import Table

from prover.kernel.engine import Engine
from prover.keys import prepared
from prover.proving.request import read_envelope, read_task

SIZES = (2, 10, 50)
CORES = (1, 2)


@dataclass(frozen=True)
class Measured:
    """One size on some processors: medians of seconds and processor seconds, memory of a proof and the process."""

    size: int
    cores: int
    constraints: int
    seconds: float
    processor_s: float
    scratch_bytes: int
    peak_resident_bytes: int


def make_key(folder: Path, size: int) -> tuple[Path, Path]:
    """The key and a request of one batch size."""
    key, request = folder / f"batch_append_32_{size}.key", folder / f"{size}.json"
    sizes = ("--append-tree-height", "32", "--append-batch-size", str(size))
    outputs = ("--output", str(key), "--output-vkey", str(key.with_suffix(".vkey")))
    subprocess.run([OURS, "setup", "--circuit", "append", *sizes, *outputs], check=True, stdout=subprocess.DEVNULL)
    made_up = [OURS, "gen-test-params", "--circuit", "append", "--batch-size", str(size), "--seed", "growth"]
    request.write_bytes(subprocess.run(made_up, check=True, stdout=subprocess.PIPE).stdout)
    with Engine() as engine:
        prepared.prepare(engine, key, folder)
    return key, request


def prove_here(key_path: Path, request: Path, cores: int, rounds: int) -> dict[str, float]:
    """What one process measures of itself: the first proof is discarded."""
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:cores]))
    body = request.read_bytes()
    inputs = read_task(body, read_envelope(body), None).assignment.inputs
    seconds, processor = [], []
    with Engine(cores) as engine:
        key = prepared.load(engine, key_path, key_path.parent)
        key.prove(inputs)
        for _ in range(rounds):
            wall, cpu = time.perf_counter(), time.process_time()
            key.prove(inputs)
            seconds.append(time.perf_counter() - wall)
            processor.append(time.process_time() - cpu)
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        found = {
            "constraints": key.info.constraints,
            "seconds": statistics.median(seconds),
            "processor_s": statistics.median(processor),
            "scratch_bytes": key.scratch_bytes,
            "peak_resident_bytes": int(status["VmHWM"].split()[0]) * 1024,
        }
        key.close()
    return found


def measure(sizes: Sequence[int], cores: Sequence[int], rounds: int, scratch: Path | None) -> list[Measured]:
    """Each size on each number of processors."""
    found = []
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        for size in sizes:
            print(f"batch of {size}", file=sys.stderr)
            paths = make_key(Path(folder), size)
            for count in cores:
                words = [sys.executable, __file__, "--prove", *map(str, paths), str(count), str(rounds)]
                answer = subprocess.run(words, check=True, stdout=subprocess.PIPE)
                found.append(Measured(size=size, cores=count, **json.loads(answer.stdout)))
    return found


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """The b of y = a x^b by least squares of the logarithms."""
    logs = [(math.log(x), math.log(y)) for x, y in points]
    return statistics.linear_regression(*zip(*logs, strict=True)).slope


def show(found: Sequence[Measured]) -> None:
    """Print the table and the exponents."""
    table = Table(title="Batch append at height 32: one proof, key resident")
    for heading in (
        "batch",
        "processors",
        "constraints",
        "s",
        "processor s",
        "µs a constraint",
        "scratch MiB",
        "peak MiB",
    ):
        table.add_column(heading, justify="right")
    for one in found:
        memory = f"{one.scratch_bytes / 2**20:.0f}", f"{one.peak_resident_bytes / 2**20:.0f}"
        each = f"{one.processor_s / one.constraints * 1e6:.2f}"
        times = f"{one.seconds:.3f}", f"{one.processor_s:.3f}", each
        table.add_row(str(one.size), str(one.cores), f"{one.constraints:,}", *times, *memory)
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    for cores in sorted({one.cores for one in found}):
        own = [one for one in found if one.cores == cores]
        if len(own) > 1:
            time_grows = exponent([(one.constraints, one.seconds) for one in own])
            memory_grows = exponent([(one.constraints, one.peak_resident_bytes) for one in own])
            print(f"{cores} processors: time grows as constraints^{time_grows:.2f}, memory as ^{memory_grows:.2f}")


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="batch sizes (default 2 10 50)")
    parser.add_argument("--cores", type=int, nargs="+", default=CORES, help="numbers of processors (default 1 2)")
    parser.add_argument("--rounds", type=int, default=10, help="measured proofs of each (default 10)")
    parser.add_argument("--scratch", type=Path, help="folder for the keys (default: the system's)")
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--prove", nargs=4, metavar=("KEY", "REQUEST", "CORES", "ROUNDS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.prove:
        key, request, cores, rounds = options.prove
        print(json.dumps(prove_here(Path(key), Path(request), int(cores), int(rounds))))
        return 0
    found = measure(options.sizes, options.cores, options.rounds, options.scratch)
    show(found)
    if options.json:
        options.json.write_text(json.dumps({**machine_facts(), "results": [asdict(one) for one in found]}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
