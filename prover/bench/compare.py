"""All comparisons with the reference prover in one run.

Measures latency over HTTP of three small circuits and the three batches of 10, throughput with --clients, the first
proof after a start, resident memory with all published keys, and trusted setup. Both programs run alternately on the
same keys; medians are printed next to the required ratio and the aim, with memory and CPU time of both servers. The
reference is the binary of the npm package 0.27.0; --before takes another build of our prover in its place. Our
latencies include the verification of each proof.

Our keys are prepared as `prover keys prepare` does by default, folded, small circuits with tables (--no-fold and
--table-memory are its options). On two CPUs folding takes three minutes for the published keys and ten with the batches
of 10; --prepared-dir keeps the prepared keys for the next run. Results are appended to the history with machine and
commit, and the history is drawn. The run takes an hour with batches; the source tree must not change meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import runpy
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import reference_batch_keys
import reference_fixtures
from bench_report import Report
from key_preparation import add_preparation, mapped_bytes, preparing
from line_chart import Point, draw
from machine import keep, machine_facts
from process_figures import MIB
from proof_requests import BATCH_CASES, BATCH_MODE, CASES, MODE, REQUESTS, bodies, for_reference, one_round, timed
from prover_server import OURS, ServerProcess, running

from prover.cli.random_requests import RandomRequests
from prover.keys.files.key_folder import installed_keys
from prover.keys.files.memory_budget import key_budget_bytes
from shared.process.cpus_and_memory import available_cpus, memory_limit_bytes
from shared.requests.proof_wire import encode_request

HISTORY = Path(__file__).parent / "history" / "compare.jsonl"
FORCED_BACKEND = Path(__file__).parent / "forced_backend"
CLIENTS = (4,)
PARTS = ("latency", "throughput", "start", "setup")
WARM_UP_ROUNDS = 1
WARM_UP_PROOFS = 3
RESIDENT_KEYS = 18
FIRST_PROOF = "inclusion 32/1"
PREPARED = re.compile(r"\S+\.prepared$", re.MULTILINE)
SETUP_SIZES = ("--append-tree-height=32", "--append-batch-size=10")


@dataclass(frozen=True)
class Row:
    """One comparison: medians in ``unit``, how many times better ours is, the required ratio, and the aim."""

    what: str
    unit: str
    rounds: int
    reference: float
    ours: float
    ratio: float
    required: float
    aim: float


Goal = tuple[float, float]
FASTER: Goal = (3.0, 5.0)
FIRST: Goal = (20.0, 100.0)
SMALLER: Goal = (2.0, 3.0)
SETUP: Goal = (4.0, 8.0)
"""Required ratio, and the aim."""


def row(what: str, unit: str, theirs: list[float], ours: list[float], goal: Goal, *, larger: bool = False) -> Row:
    """Return medians and ratio; with ``larger``, larger values are better."""
    medians = statistics.median(theirs), statistics.median(ours)
    if not all(medians):
        sys.exit(f"{what}: no proof was made in time; is the machine busy?")
    ratio = medians[1] / medians[0] if larger else medians[0] / medians[1]
    return Row(what, unit, len(ours), *medians, round(ratio, 3), *goal)


@dataclass(frozen=True)
class Bench:
    """Both programs on one folder of keys."""

    binary: str
    keys_dir: Path
    mode: tuple[str, ...]
    prepared: Path
    rounds: int

    @contextlib.contextmanager
    def both(self) -> Iterator[tuple[ServerProcess, ServerProcess]]:
        """Run the reference's server and ours."""
        with self.reference() as theirs, self.ours() as ours:
            yield theirs, ours

    def reference(self) -> contextlib.AbstractContextManager[ServerProcess]:
        """Run the server of the reference, or of the other build."""
        return running(self.binary, self.keys_dir, *self.mode)

    def ours(self, *extra: str) -> contextlib.AbstractContextManager[ServerProcess]:
        """Run our server on the prepared keys."""
        variables = {"PROVER_KEYS__PREPARED_DIRECTORY": str(self.prepared)}
        return running(OURS, self.keys_dir, *extra, variables=variables)


def throughputs(bench: Bench, cases: dict[str, str], clients: int, proofs: int) -> Iterator[Row]:
    """Yield proofs per second with several clients in closed loops."""
    with bench.both() as servers:
        for circuit, name in cases.items():
            rates: list[list[float]] = [[], []]
            request = (REQUESTS / f"{name}.json").read_bytes()
            sources = (map(for_reference, bodies(request)), bodies(request))
            for number in range(bench.rounds + WARM_UP_ROUNDS):
                for server, source, found in zip(servers, sources, rates, strict=True):
                    seconds, latencies, refused = asyncio.run(
                        one_round(server.port, clients, max(proofs, clients), source)
                    )
                    if refused and number >= WARM_UP_ROUNDS:
                        print(f"{circuit}: {refused} of {proofs} requests were refused", file=sys.stderr)
                    if number >= WARM_UP_ROUNDS:
                        found.append(len(latencies) / seconds)
            yield row(f"{clients} clients: {circuit}", "proofs/s", rates[0], rates[1], FASTER, larger=True)


def first_proofs(bench: Bench) -> Iterator[Row]:
    """Yield seconds from the start of the process to the first answer, and resident memory with all keys loaded.

    The page cache is warm. The reference loads all its keys before it listens; its memory is read at that time.
    """
    body = (REQUESTS / f"{CASES[FIRST_PROOF]}.json").read_bytes()
    seconds: list[list[float]] = [[], []]
    reference_mib: list[float] = []
    ways: tuple[Callable[[], contextlib.AbstractContextManager[ServerProcess]], ...] = (bench.reference, bench.ours)
    for _ in range(bench.rounds):
        for start, found in zip(ways, seconds, strict=True):
            begun = time.perf_counter()
            with start() as server:
                if start == bench.reference:
                    reference_mib.append(server.resident_bytes / MIB)
                timed(server.port, body)
                found.append(time.perf_counter() - begun)
    yield row(f"first proof after start: {FIRST_PROOF}", "s", seconds[0], seconds[1], FIRST)
    ours_mib = []
    for _ in range(bench.rounds):
        with preloaded(bench) as server:
            ours_mib.append(server.resident_bytes / MIB)
    yield row(f"resident with {RESIDENT_KEYS} keys", "MiB", reference_mib, ours_mib, SMALLER)


@contextlib.contextmanager
def preloaded(bench: Bench) -> Iterator[ServerProcess]:
    """Run our server; enter the block once all published keys are loaded, before any proof."""
    circuits = ",".join(circuit.name for circuit in installed_keys(bench.keys_dir))
    with bench.ours("--preload-circuits", circuits) as ours:
        ours.wait_until_ready()
        if len(set(PREPARED.findall(ours.maps))) != RESIDENT_KEYS:
            sys.exit(f"our server did not map {RESIDENT_KEYS} keys")
        yield ours


def resident_in_use(bench: Bench) -> Row:
    """Return resident memory, mapped pages included, after a proof by each of the published keys."""
    made_up = RandomRequests("resident")
    bodies_of_all = [encode_request(made_up.make(circuit)) for circuit in installed_keys(bench.keys_dir)]
    with bench.reference() as theirs, preloaded(bench) as ours:
        for server in (theirs, ours):
            for body in bodies_of_all:
                timed(server.port, body)
        sizes = [theirs.resident_bytes / MIB, ours.resident_bytes / MIB]
    return row(f"resident after a proof by each of {RESIDENT_KEYS} keys", "MiB", sizes[:1], sizes[1:], SMALLER)


def setup(binary: str, rounds: int) -> Row:
    """Return seconds of whole processes that compile append 32/10, make its keys and write them."""
    seconds: list[list[float]] = [[], []]
    for _ in range(rounds):
        for program, circuit, found in zip((binary, OURS), ("append-with-proofs", "append"), seconds, strict=True):
            with tempfile.TemporaryDirectory() as folder:
                outputs = (f"--output={folder}/a.key", f"--output-vkey={folder}/a.vkey")
                words = [program, "setup", f"--circuit={circuit}", *SETUP_SIZES, *outputs]
                begun = time.perf_counter()
                answer = subprocess.run(words, capture_output=True, check=False)
                found.append(time.perf_counter() - begun)
            if answer.returncode:
                sys.exit(f"{program} setup failed with {answer.returncode}: {answer.stderr[-500:]!r}")
    return row("setup: batch append 32/10", "s", seconds[0], seconds[1], SETUP)


def footprint(
    bench: Bench, cases: dict[str, str], servers: Sequence[ServerProcess], before: Sequence[float]
) -> dict[str, Any]:
    """Return memory of both servers in MiB, and CPU seconds since ``before``, the reference first."""
    return {
        "circuits": ", ".join(cases),
        "prepared_mib": round(mapped_bytes(bench.prepared) / MIB),
        "resident_mib": [round(server.resident_bytes / MIB) for server in servers],
        "peak_mib": [round(server.peak_resident_bytes / MIB) for server in servers],
        "cpu_s": [round(server.cpu_s - start, 1) for server, start in zip(servers, before, strict=True)],
    }


def latencies(bench: Bench, cases: dict[str, str], report: Report) -> Iterator[Row]:
    """Yield seconds per proof: one request to both servers alternately. Adds the servers' footprint to the report."""
    with bench.both() as servers:
        before = [server.cpu_s for server in servers]
        for circuit, name in cases.items():
            body = (REQUESTS / f"{name}.json").read_bytes()
            theirs, ours = list[float](), list[float]()
            for _ in range(bench.rounds + WARM_UP_PROOFS):
                theirs.append(timed(servers[0].port, for_reference(body)))
                ours.append(timed(servers[1].port, body))
            yield row(f"latency: {circuit}", "s", theirs[WARM_UP_PROOFS:], ours[WARM_UP_PROOFS:], FASTER)
        report.tables.setdefault("footprints", []).append(footprint(bench, cases, servers, before))


def draw_history(lines: Iterable[str]) -> str:
    """Return a chart of the recorded latencies, a panel for each circuit. Raises ValueError for a line without results.

    A line joins the runs of one CPU model and backend, since times of different machines cannot be compared.
    """
    panels: dict[str, dict[str, list[Point]]] = defaultdict(lambda: defaultdict(list))
    for number, line in enumerate(filter(str.strip, lines)):
        record = json.loads(line)
        if not isinstance(record, dict) or "results" not in record:
            raise ValueError(f"line {number + 1} has no results")
        machine = f"{record.get('processor', 'unknown CPU')}, {record.get('backend', 'backend not recorded')}"
        label = f"{str(record.get('time', ''))[:10]} {str(record.get('commit', ''))[:7]}".strip()
        for found in record["results"]:
            ours, theirs = float(found["ours_median_s"]), float(found["reference_median_s"])
            title = f"{label}: {ours:.3f} s ({theirs / ours:.2f} times faster than the reference)"
            panels[f"{found['circuit']}, seconds per proof"][machine].append(Point(number, ours, label, title))
    return draw(dict(panels))


def settings_of(options: argparse.Namespace) -> dict[str, object]:
    """Return the settings of our server that affect its speed and memory."""
    return {
        "table_mib": options.table_memory,
        "kernel_threads": available_cpus(),
        "key_budget_mib": key_budget_bytes(0.0) // MIB,
        "proof_memory_mib": memory_limit_bytes() // 2 // MIB,
    }


def rows_of(bench: Bench, cases: dict[str, str], options: argparse.Namespace, report: Report) -> Iterator[Row]:
    """Yield latencies and throughputs of some circuits, if --only has them."""
    if "latency" in options.only:
        yield from latencies(bench, cases, report)
    if "throughput" in options.only:
        for clients in options.clients:
            yield from throughputs(bench, cases, clients, options.proofs)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("--rounds", type=int, default=10, help="measured rounds of every row (default 10)")
    parser.add_argument("--proofs", type=int, default=8, help="minimum proofs in a round of throughput (default 8)")
    parser.add_argument("--clients", type=int, nargs="+", default=CLIENTS, help="numbers of clients (default 4)")
    parser.add_argument("--small", action="store_true", help="omit the batches of 10 and the setup")
    parser.add_argument("--only", choices=PARTS, nargs="+", default=PARTS, help="rows to measure (default: all)")
    parser.add_argument(
        "--before", type=Path, metavar="PROVER", help="the prover command of another build, without the setup"
    )
    parser.add_argument("--backend", help="of the kernel in our servers, e.g. avx2 (default: that of this CPU)")
    parser.add_argument("--history", type=Path, default=HISTORY, help="JSON-lines file to append to")
    add_preparation(parser)


def force_backend(name: str) -> None:
    """Make this process, and the servers that it starts, use one backend of the kernel."""
    os.environ["BENCH_BACKEND"] = name
    os.environ["PYTHONPATH"] = os.pathsep.join([str(FORCED_BACKEND), *filter(None, [os.environ.get("PYTHONPATH")])])
    runpy.run_path(str(FORCED_BACKEND / "sitecustomize.py"))


def main(options: argparse.Namespace) -> int:
    """Measure, print, and return the exit status."""
    if options.backend:
        force_backend(options.backend)
    binary = str(options.before.resolve() if options.before else reference_fixtures.prover_binary())
    facts, report, rows = machine_facts(), Report(), list[Row]()
    proves = {"latency", "throughput"} & set(options.only)
    with preparing(options) as preparation:
        keys_dir = reference_fixtures.proving_keys_dir()
        if proves or "start" in options.only:
            prepared = preparation.prepare(keys_dir, () if "start" in options.only else CASES.values())
            bench = Bench(binary, keys_dir, () if options.before else MODE, prepared, options.rounds)
            rows += rows_of(bench, CASES, options, report)
            if "start" in options.only:
                rows += [*first_proofs(bench), resident_in_use(bench)]
        if proves and not options.small:
            keys_dir = reference_batch_keys.batch_keys_dir()
            prepared = preparation.prepare(keys_dir, BATCH_CASES.values())
            bench = Bench(binary, keys_dir, () if options.before else BATCH_MODE, prepared, options.rounds)
            rows += rows_of(bench, BATCH_CASES, options, report)
        if "setup" in options.only and not options.small and not options.before:
            rows.append(setup(binary, options.rounds))
    if not options.before:
        for one in rows:
            report.require(one.what, one.ratio >= one.required, f"{one.ratio:.2f}, {one.required:g} required")
    report.tables["alternately, medians"] = [asdict(one) for one in rows]
    report.figures = {"prepared": " ".join(preparation.words), "folded": preparation.folded, **settings_of(options)}
    report.write(as_json=False)
    if not options.before:
        results = [
            {"circuit": one.what.partition(": ")[2], "reference_median_s": one.reference, "ours_median_s": one.ours}
            for one in rows
            if one.what.startswith("latency")
        ]
        found = {"results": results, "rows": [asdict(one) for one in rows], **report.tables}
        keep(options.history, {**facts, **report.figures, **found})
        options.history.with_suffix(".svg").write_text(draw_history(options.history.read_text().splitlines()))
    return 0 if report.passed else 1
