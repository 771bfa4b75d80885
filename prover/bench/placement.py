"""Whether huge pages, threads pinned to processors or a process for each processor make proofs faster.

Keys are prepared without folding. One proof after the other: plain; huge (the C library asks for huge pages for all
that it allocates, so for the working memory); source and source-huge (the key read from gnark's file into memory of the
process, in place of a mapped file, which has no huge pages on most file systems); pinned (each thread of the kernel to
a processor of its own). As many proofs at once as there are processors: together (one process whose threads share the
proofs, as a server does) and apart (a process with one thread on each processor). Each way in processes of its own, in
turn; needs transparent huge pages that are `madvise` or `always`. Prints medians of the processes' medians; a line of
JSON with machine and commit is appended to a history. `make bench-placement`; ten minutes on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import compare_reference  # before the fixtures: shows the way to them
import reference_batch_keys
import reference_fixtures
from machine import keep, machine_facts
from prove_alone import WARM_UPS
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from prover.kernel.engine import Engine
from prover.keys.prepared import prepared_keys as prepared
from prover.proving.request import read_envelope, read_task

HISTORY = Path(__file__).with_name("placement_history.jsonl")
TRANSPARENT = Path("/sys/kernel/mm/transparent_hugepage/enabled")
WAYS: dict[str, Collection[str]] = {
    "plain": (),
    "huge": ("huge",),
    "source": ("source",),
    "source-huge": ("source", "huge"),
    "pinned": ("pinned",),
    "together": ("callers",),
    "apart": ("callers", "apart"),
}

Numbers = dict[str, float]


def pin_threads() -> None:
    """Give each thread of this process one of its processors, in turn."""
    processors = sorted(os.sched_getaffinity(0))
    for number, thread in enumerate(sorted(int(path.name) for path in Path("/proc/self/task").iterdir())):
        os.sched_setaffinity(thread, {processors[number % len(processors)]})


def huge_bytes() -> int:
    """Memory of this process in huge pages."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:])
    return int(lines["AnonHugePages"].split()[0]) * 1024


def prove_here(way: str, key_path: Path, folder: Path, request: Path, proofs: int) -> Numbers:
    """Proofs on the processors of this process, begun when a line comes in; medians in seconds, rate, bytes."""
    body = request.read_bytes()
    inputs = read_task(body, read_envelope(body), None).assignment.inputs
    threads = len(os.sched_getaffinity(0))
    callers = threads if "callers" in WAYS[way] else 1
    wall: list[float] = []
    with Engine(threads) as engine, ThreadPoolExecutor(callers) as pool:
        if "pinned" in WAYS[way]:
            pin_threads()
        source = "source" in WAYS[way]
        key = prepared.load_source(engine, key_path) if source else prepared.load(engine, key_path, folder)

        def prove(_: int) -> None:
            start = time.perf_counter()
            key.prove(inputs)
            wall.append(time.perf_counter() - start)

        with contextlib.closing(key):
            list(pool.map(prove, range(WARM_UPS * callers)))
            wall.clear()
            print("ready", flush=True)
            sys.stdin.readline()
            start, processor = time.perf_counter(), time.process_time()
            list(pool.map(prove, range(proofs * callers)))
            rate = proofs * callers / (time.perf_counter() - start)
            processor = (time.process_time() - processor) / (proofs * callers)
            return {"wall": statistics.median(wall), "processor": processor, "rate": rate, "huge": huge_bytes()}


def pipes(child: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    """What a child writes, and what it reads."""
    if child.stdout is None or child.stdin is None:
        raise ValueError("the program has no pipes")
    return child.stdout, child.stdin


def prove_apart(way: str, key: Path, folder: Path, request: Path, proofs: int) -> Numbers:
    """The same in a process of its own, or one on each processor; rates and huge pages are sums, the rest means."""
    environment = {**os.environ, "GLIBC_TUNABLES": f"glibc.malloc.hugetlb={int('huge' in WAYS[way])}"}
    words = [sys.executable, __file__, "--here", way, str(key), str(folder), str(request), str(proofs)]
    shares = [{one} for one in os.sched_getaffinity(0)] if "apart" in WAYS[way] else [os.sched_getaffinity(0)]
    with contextlib.ExitStack() as stack:
        children = []
        for share in shares:
            pinned = ["taskset", "--cpu-list", ",".join(map(str, share)), *words]
            child = subprocess.Popen(pinned, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
            children.append(stack.enter_context(child))
        for child in children:
            pipes(child)[0].readline()
        for child in children:
            sink = pipes(child)[1]
            sink.write("\n")
            sink.flush()
        answers: list[Numbers] = [json.loads(child.communicate()[0]) for child in children]
    joined = {part: sum(answer[part] for answer in answers) for part in ("rate", "huge")}
    return joined | {part: statistics.mean(answer[part] for answer in answers) for part in ("wall", "processor")}


def measure(key: Path, folder: Path, request: Path, rounds: int, proofs: int) -> dict[str, Numbers]:
    """Medians over ``rounds`` of every way."""
    runs: dict[str, list[Numbers]] = {way: [] for way in WAYS}
    with Progress(console=Console(stderr=True)) as progress:
        for _ in progress.track(range(rounds), description=request.stem):
            for way, measured in runs.items():
                measured.append(prove_apart(way, key, folder, request, proofs))
    return {
        way: {part: statistics.median(run[part] for run in measured) for part in measured[0]}
        for way, measured in runs.items()
    }


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="processes of each way (default 10)")
    parser.add_argument("--history", type=Path, default=HISTORY, metavar="FILE", help="JSON-lines file to append to")
    options = parser.parse_args()
    if not TRANSPARENT.exists() or "[never]" in TRANSPARENT.read_text():
        parser.error(f"this system gives no huge pages: write madvise to {TRANSPARENT}")
    facts = machine_facts()
    table = Table("circuit", "way", "ms", "of plain", "processor, ms", "proofs/s", "huge pages, MiB")
    results = []
    small, batch = reference_fixtures.proving_keys_dir(), reference_batch_keys.batch_keys_dir()
    cases = (
        (small, "inclusion 32/1", compare_reference.CASES, 20),
        (batch, "append 32/10", compare_reference.BATCH_CASES, 4),
    )
    with tempfile.TemporaryDirectory() as folder:
        for keys, circuit, names, proofs in cases:
            key = compare_reference.key_of(keys, names[circuit])
            with Engine() as engine:
                prepared.prepare(engine, key, Path(folder))
            request = compare_reference.REQUESTS / f"{names[circuit]}.json"
            found = measure(key, Path(folder), request, options.rounds, proofs)
            for way, numbers in found.items():
                results.append({"circuit": circuit, "way": way, **numbers})
                times = f"{numbers['wall'] * 1e3:.1f}", f"{numbers['wall'] / found['plain']['wall']:.3f}"
                cells = f"{numbers['processor'] * 1e3:.1f}", f"{numbers['rate']:.2f}", f"{numbers['huge'] / 2**20:.0f}"
                table.add_row(circuit, way, *times, *cells)
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    keep(options.history, {**facts, "rounds": options.rounds, "results": results})
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--here"]:
        here, key_file, folder_name, request_file, count = sys.argv[2:]
        print(json.dumps(prove_here(here, Path(key_file), Path(folder_name), Path(request_file), int(count))))
        sys.exit(0)
    sys.exit(main())
