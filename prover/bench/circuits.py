"""Each circuit alone: time and memory by CPUs, backend and batch size, and the loading of its key.

- `alone`: witness, latency, throughput, loading and memory on 1, 2, 4, … CPUs, each in a process of its own. Keys are
  those of three small circuits, with --batch also of the batches of 10, prepared as `prover keys prepare` does.
- `backends`: one proof on one thread by each backend that this CPU supports, alternately. Keys are read from their
  source, so each backend has the points in its own representation.
- `growth`: inclusion of one account and batches of --sizes and --address-sizes with development keys, and the exponents
  that fit: 1 means that twice the constraints take twice as long. Folding takes minutes for an append of 100, an hour
  for an address-append of 250; --growth-dir keeps the keys, 10 GB for that one, and --no-fold needs no folding.
- `admission`: reading and prechecks of batches of 500, from the last byte of a body until its proof could begin.
- `load`: loading of keys by the reference, whose binary prints a line before and after each, by our prover from the
  same files, and from prepared files; alternately, with a warm page cache. Exit status 1 below 50 times the reference.

Prints a table for each part and appends the rows to a history, with machine and commit. Linux only.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import admission
import reference_batch_keys
import reference_fixtures
from bench_report import Report
from growth import APPEND_SIZES, measured_growth
from key_preparation import add_preparation, key_of, preparing
from machine import keep, machine_facts
from proof_requests import BATCH_CASES, BATCH_MODE, CASES, MODE, REQUESTS
from prove_alone import Figures, measure, milliseconds
from prover_server import START_DEADLINE_S, free_port, start_command

from prover.errors import ProverError
from prover.kernel.engine import STAGES, Backend, Engine
from prover.keys.prepared import prepared_keys

HISTORY = Path(__file__).parent / "history" / "circuits.jsonl"
REQUIRED_RATIO = 50.0
ALTERNATIONS = 3
PREPARED_LOADS = 5
"""Loads per round; one alone is too short to time."""
BEGIN = re.compile(r"Reading proving system from file (\S+\.key)")
END = re.compile(r"Read \w*ProvingSystem")
SERVING = "prover server started"
ALONE = (
    *("p50_ms", "p95_ms", "cpu_ms", "witness_ms", "proofs_per_s"),
    *("load_cold_ms", "load_warm_ms", "proof_mib", "peak_mib"),
)

Rows = list[dict[str, Any]]


def sources(options: argparse.Namespace) -> Iterator[tuple[dict[str, str], Path]]:
    """Yield names of circuits and the folder of their keys."""
    yield CASES, reference_fixtures.proving_keys_dir()
    if options.batch:
        yield BATCH_CASES, reference_batch_keys.batch_keys_dir()


def cpu_counts(options: argparse.Namespace) -> Sequence[int]:
    """Return --cores, or 1, 2, 4, … and the number of our CPUs."""
    own = len(os.sched_getaffinity(0))
    return options.cores or sorted({*(2**n for n in range(own.bit_length())), own})


def alone(options: argparse.Namespace, report: Report) -> Rows:
    """Measure each circuit on each number of CPUs."""
    rows = []
    with preparing(options) as preparation:
        for cases, keys in sources(options):
            folder = preparation.prepare(keys, cases.values())
            for circuit, name in cases.items():
                for cores in cpu_counts(options):
                    request = REQUESTS / f"{name}.json"
                    found = measure(key_of(keys, name), folder, request, cores, options.rounds)
                    rows.append({"circuit": circuit, "cpus": cores, **_columns(found, ALONE)})
        report.figures |= {"prepared": " ".join(preparation.words), "folded": preparation.folded}
    return rows


def supported_backends() -> Iterator[Backend]:
    """Yield the backends that this CPU supports."""
    for backend in Backend:
        with contextlib.suppress(ProverError), Engine(1, backend):
            if backend is not Backend.AUTO:
                yield backend


def backends(options: argparse.Namespace, report: Report) -> Rows:  # noqa: ARG001 - the signature of a part
    """Measure one proof on one thread by each backend; minimum of the CPU time, and stages of that run."""
    rows = []
    for cases, keys in sources(options):
        for circuit, name in cases.items():
            request, fastest = REQUESTS / f"{name}.json", dict[str, Figures]()
            for _ in range(ALTERNATIONS):
                for backend in supported_backends():
                    found = measure(key_of(keys, name), None, request, 1, options.rounds, backend.name)
                    best = fastest.setdefault(backend.name.lower(), found)
                    if found["fastest_cpu_ms"] < best["fastest_cpu_ms"]:
                        fastest[backend.name.lower()] = found
            columns = ("fastest_cpu_ms", *(f"{stage}_ms" for stage in STAGES))
            rows += [{"circuit": circuit, "backend": name, **_columns(best, columns)} for name, best in fastest.items()]
    return rows


def growth(options: argparse.Namespace, report: Report) -> Rows:
    """Measure circuits of several sizes, and fit exponents."""
    with preparing(options) as preparation:
        report.figures["folded"] = not options.no_fold
        return [*measured_growth(options, preparation, report, cpu_counts(options))]


def load(options: argparse.Namespace, report: Report) -> Rows:
    """Load all keys in the three ways alternately; medians."""
    mode = BATCH_MODE if options.batch else MODE
    keys = reference_batch_keys.batch_keys_dir() if options.batch else reference_fixtures.proving_keys_dir()
    times: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with tempfile.TemporaryDirectory(dir=keys.parent) as folder, Engine() as engine:
        for _ in range(options.starts):
            for name, theirs_ms in _reference_loads(keys, mode).items():
                source, own = keys / name, times[name]
                prepared_keys.prepare(engine, source, Path(folder))
                own["reference_ms"].append(theirs_ms)
                own["source_ms"].append(
                    milliseconds(lambda source=source: prepared_keys.load_source(engine, source).close())  # type: ignore[misc]
                )
                for _ in range(PREPARED_LOADS):
                    own["prepared_ms"].append(
                        milliseconds(lambda source=source: prepared_keys.load(engine, source, Path(folder)).close())  # type: ignore[misc]
                    )
    rows = []
    for name, measured in times.items():
        medians = {way: statistics.median(found) for way, found in measured.items()}
        ratio = medians["reference_ms"] / medians["prepared_ms"]
        rows.append({"key": name, **medians, "times_faster": ratio})
        report.require(f"{name}: {REQUIRED_RATIO:g} times the reference", ratio >= REQUIRED_RATIO, f"{ratio:.0f}")
    return rows


def admissions(options: argparse.Namespace, report: Report) -> Rows:  # noqa: ARG001 - the signature of a part
    """Measure how long batches take until their proof could begin."""
    return [row for cores in cpu_counts(options) for row in admission.measure(cores, options.rounds)]


def _reference_loads(keys_dir: Path, mode: tuple[str, ...]) -> dict[str, float]:
    """Return milliseconds per key of one start of the reference. Exits if it loads no key."""
    binary = str(reference_fixtures.prover_binary())
    arguments = start_command(binary, keys_dir, free_port(), free_port(), *mode)
    found: dict[str, float] = {}
    deadline = time.monotonic() + START_DEADLINE_S
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder) as process,
    ):
        name, begun = "", 0.0
        for line in cast("Any", process.stdout):
            now = time.perf_counter()
            if begin := BEGIN.search(line):
                name, begun = Path(begin[1]).name, now
            elif name and END.search(line):
                found[name] = (now - begun) * 1e3
                name = ""
            if SERVING in line or time.monotonic() > deadline:
                break
        process.kill()
    return found or sys.exit("the reference loaded no key")


def _columns(found: Figures, names: Sequence[str]) -> Figures:
    return {name: round(found[name], 3) for name in names}


PARTS = {"alone": alone, "backends": backends, "growth": growth, "admission": admissions, "load": load}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "--only", choices=PARTS, nargs="+", default=("alone",), help="parts to measure (default: alone)"
    )
    parser.add_argument("--batch", action="store_true", help="also the batches of 10 (keys of hundreds of MB)")
    parser.add_argument("--rounds", type=int, default=20, help="measured proofs of each (default 20)")
    parser.add_argument("--cores", type=int, nargs="+", help="numbers of CPUs (default: 1, 2, 4, … of this machine)")
    parser.add_argument(
        "--sizes", type=int, nargs="*", default=APPEND_SIZES, help="growth: batches of append (default 2 10 50 100)"
    )
    parser.add_argument(
        "--address-sizes", type=int, nargs="*", default=(), help="growth: batches of address-append (default none)"
    )
    parser.add_argument(
        "--backends", nargs="+", default=["auto"], help="growth: of the kernel (default that of this CPU)"
    )
    parser.add_argument("--starts", type=int, default=3, help="starts of the reference for its loads (default 3)")
    parser.add_argument(
        "--growth-dir", type=Path, help="growth: folder that keeps keys for the next run (default none)"
    )
    add_preparation(parser)
    parser.add_argument("--history", type=Path, default=HISTORY, metavar="FILE", help="JSON-lines file to append to")


def main(options: argparse.Namespace) -> int:
    """Measure, print, and return the exit status."""
    facts, report = machine_facts(), Report()
    for name in options.only:
        report.tables[name] = [*PARTS[name](options, report)]
    report.write(as_json=False)
    keep(options.history, {**facts, "rounds": options.rounds, "figures": report.figures, "results": report.tables})
    return 0 if report.passed else 1
