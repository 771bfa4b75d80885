"""What a proof would take on many processors: its tasks, measured one by one on one, and scheduled as the kernel does.

For each of --threads the kernel cuts a proof for so many threads, but runs its tasks on one
(native/bench/proof_tasks.c), which gives the processor time of each. Then they are laid out over as many processors by
the rule of the kernel's pool: a free processor takes the first task of the list that is ready. Memory that processors
share is left out, and so is what they wait for each other at a lock: measured times on many processors are longer.
Prints processor time, the latency by this schedule, the speed-up over one thread, its part of the ideal one, and the
critical path: the latency with any number of processors.

NAME is that of a development key and request which are made (append_32_10; see gpu_keys.py), unless --key and --inputs
name files. A batch of 10 takes two minutes.
"""

from __future__ import annotations

import argparse
import heapq
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from gpu_keys import make
from machine import machine_facts
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
THREADS = (1, 2, 4, 8, 16, 32, 48)
UNBOUNDED = 1_000_000


def makespan(entries: list[dict[str, Any]], processors: int) -> int:
    """The time of one job: entries {"entry", "group", "after", "ns"} of tasks; `after` is a set of groups as bits."""
    left = [0] * 32
    entries = sorted(entries, key=lambda entry: entry["entry"])
    for entry in entries:
        left[entry["group"]] += len(entry["ns"])
    taken, free, now = [0] * len(entries), processors, 0
    running: list[tuple[int, int]] = []  # end, group
    while True:
        for place, entry in enumerate(entries):
            if any(entry["after"] >> group & 1 and left[group] for group in range(32)):
                continue
            while free and taken[place] < len(entry["ns"]):
                heapq.heappush(running, (now + entry["ns"][taken[place]], entry["group"]))
                taken[place] += 1
                free -= 1
        if not running:
            return now
        now, group = heapq.heappop(running)
        left[group] -= 1
        free += 1


def latency_ns(record: dict[str, Any], processors: int) -> int:
    """All jobs, one after the other, and what is no task."""
    return int(record["serial_ns"]) + sum(makespan(job, processors) for job in record["jobs"])


def processor_ns(record: dict[str, Any]) -> int:
    """The time of all tasks and the rest."""
    return int(record["serial_ns"]) + sum(sum(entry["ns"]) for job in record["jobs"] for entry in job)


def measure(program: Path, key: Path, inputs: Path, threads: list[int], rounds: int) -> list[dict[str, Any]]:
    """One record of tasks per number of threads."""
    words = [program, key, inputs, rounds, *threads]
    answer = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in answer.stdout.splitlines()]


def summary(records: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Milliseconds and ratios, one row per number of threads."""
    alone = latency_ns(records[0], 1)
    rows = []
    for record in records:
        threads = int(record["threads"])
        latency = latency_ns(record, threads)
        rows.append(
            {
                "threads": threads,
                "tasks": sum(len(entry["ns"]) for job in record["jobs"] for entry in job),
                "processor_ms": round(processor_ns(record) / 1e6, 1),
                "latency_ms": round(latency / 1e6, 1),
                "speed_up": round(alone / latency, 2),
                "efficiency": round(alone / latency / threads, 3),
                "critical_path_ms": round(latency_ns(record, UNBOUNDED) / 1e6, 1),
            }
        )
    return rows


def show(name: str, rows: list[dict[str, float]]) -> None:
    """Print the rows as a table."""
    table = Table(title=f"{name}: scheduled from measured tasks, not measured")
    for column in rows[0]:
        table.add_column(column.replace("_", " "), justify="right")
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", default="append_32_10", help="circuit_height_size (default append_32_10)")
    parser.add_argument(
        "--threads", type=int, nargs="+", default=THREADS, help="the first is what others are compared with"
    )
    parser.add_argument("--rounds", type=int, default=3, help="proofs, of which shortest times count (default 3)")
    parser.add_argument("--key", type=Path, help="a key, or a prepared one; with --inputs")
    parser.add_argument("--inputs", type=Path, help="its public and secret inputs, 32 bytes each")
    parser.add_argument("--program", type=Path, help="proof_tasks of another build")
    options = parser.parse_args()
    program = options.program
    if program is None:
        words = [str(ROOT / "prover/scripts/native"), "proof-tasks"]
        program = ROOT / subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        key, inputs = options.key, options.inputs
        if key is None or inputs is None:
            make(options.name, Path(folder))
            key = Path(folder) / f"{options.name}.key"
            inputs = key.with_suffix(".inputs")
        rows = summary(measure(program, key, inputs, list(options.threads), options.rounds))
    name = options.key.stem if options.key else options.name
    show(name, rows)
    print(json.dumps({**machine_facts(), "name": name, "results": rows}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
