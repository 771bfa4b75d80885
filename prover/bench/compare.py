"""All comparisons with the reference prover in one run.

Measures latency over HTTP of three small circuits and the three batches of 10, throughput with four clients, the first
proof after a start, resident memory with all published keys, and trusted setup. Both programs run alternately on the
same keys; medians are printed next to the required ratio and the aim, and memory and CPU time of both servers below
them. The reference is the binary of the npm package 0.27.0. Our latencies include the verification of each proof.

Our keys are prepared as `prover keys prepare` does by default, folded and without tables (--no-fold and --table-memory
are its options). On two CPUs folding takes three minutes for the published keys and ten with the batches of 10;
--prepared-dir keeps the prepared keys for the next run. Results are appended to the history with machine and commit,
and the history is drawn. The run takes an hour with batches; the source tree must not change meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import key_preparation
import reference_batch_keys
import reference_fixtures
from bench_server import OURS, ServerProcess, running
from history_chart import draw, read_history
from machine import keep, machine_facts
from proof_requests import BATCH_CASES, BATCH_MODE, CASES, MODE, REQUESTS, bodies, for_reference, one_round, timed
from rich.console import Console
from rich.table import Table

from prover.cli.made_up_requests import MadeUpRequests
from prover.cpu.cpu_count import available_cpus
from prover.keys.files.key_folder import installed_keys
from prover.keys.files.memory_budget import key_budget_bytes
from prover.observability.memory import memory_limit_bytes
from shared.proof_wire import encode_request

HISTORY = Path(__file__).with_name("history.jsonl")
CLIENTS = 4
PARTS = ("latency", "throughput", "start", "setup")
MIB = 2**20
WARM_UP_ROUNDS = 1
RESIDENT_KEYS = 18
RESIDENT_DEADLINE_S = 300.0
FIRST_PROOF = "inclusion 32/1"
PREPARED = re.compile(r"\S+\.prepared$", re.MULTILINE)


WARM_UP_PROOFS = 3
SETUP_SIZES = ("--append-tree-height=32", "--append-batch-size=10")


@dataclass(frozen=True)
class Comparison:
    """Seconds per proof: medians, minima, and reference / ours by medians."""

    circuit: str
    rounds: int
    reference_median_s: float
    ours_median_s: float
    reference_min_s: float
    ours_min_s: float
    ratio: float


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
        """Run the reference's server."""
        return running(self.binary, self.keys_dir, *self.mode)

    def ours(self, *extra: str) -> contextlib.AbstractContextManager[ServerProcess]:
        """Run our server on the prepared keys."""
        variables = {"PROVER_KEYS__PREPARED_DIRECTORY": str(self.prepared)}
        return running(OURS, self.keys_dir, *extra, variables=variables)


def throughputs(bench: Bench, cases: dict[str, str], proofs: int) -> Iterator[Row]:
    """Yield proofs per second with several clients in closed loops."""
    with bench.both() as servers:
        for circuit, name in cases.items():
            rates: list[list[float]] = [[], []]
            request = (REQUESTS / f"{name}.json").read_bytes()
            sources = (map(for_reference, bodies(request)), bodies(request))
            for number in range(bench.rounds + WARM_UP_ROUNDS):
                for server, source, found in zip(servers, sources, rates, strict=True):
                    seconds, latencies, refused = asyncio.run(one_round(server.port, CLIENTS, proofs, source))
                    if refused and number >= WARM_UP_ROUNDS:
                        print(f"{circuit}: {refused} of {proofs} requests were refused", file=sys.stderr)
                    if number >= WARM_UP_ROUNDS:
                        found.append(len(latencies) / seconds)
            yield row(f"{CLIENTS} clients: {circuit}", "proofs/s", rates[0], rates[1], FASTER, larger=True)


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
        deadline = time.monotonic() + RESIDENT_DEADLINE_S
        while not ours.is_ready():
            if time.monotonic() > deadline:
                sys.exit("our server did not load all keys")
            time.sleep(0.1)
        if len(set(PREPARED.findall(ours.maps))) != RESIDENT_KEYS:
            sys.exit(f"our server did not map {RESIDENT_KEYS} keys")
        yield ours


def resident_in_use(bench: Bench) -> Row:
    """Return resident memory, mapped pages included, after a proof by each of the published keys."""
    made_up = MadeUpRequests("resident")
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


@dataclass(frozen=True)
class Footprint:
    """Memory of both servers in MiB, and CPU seconds of their proofs of ``circuits``."""

    circuits: str
    prepared_mib: float
    reference_resident_mib: float
    our_resident_mib: float
    reference_peak_mib: float
    our_peak_mib: float
    reference_processor_s: float
    our_processor_s: float


def footprint(
    bench: Bench, cases: dict[str, str], servers: Sequence[ServerProcess], before: Sequence[float]
) -> Footprint:
    """Return the figures of the servers; ``before`` is their CPU time in seconds at the first proof."""
    resident = [server.resident_bytes / MIB for server in servers]
    peak = [server.peak_resident_bytes / MIB for server in servers]
    processor = [server.processor_s - start for server, start in zip(servers, before, strict=True)]
    prepared = key_preparation.mapped_bytes(bench.prepared) / MIB
    return Footprint(", ".join(cases), *(round(number, 2) for number in (prepared, *resident, *peak, *processor)))


def one_latency(circuit: str, name: str, rounds: int, ports: Sequence[int]) -> Comparison:
    """Send one request to both servers alternately; return seconds per proof."""
    body = (REQUESTS / f"{name}.json").read_bytes()
    theirs: list[float] = []
    ours: list[float] = []
    for _ in range(rounds + WARM_UP_PROOFS):
        theirs.append(timed(ports[0], for_reference(body)))
        ours.append(timed(ports[1], body))
    del theirs[:WARM_UP_PROOFS], ours[:WARM_UP_PROOFS]
    medians = statistics.median(theirs), statistics.median(ours)
    return Comparison(circuit, rounds, *medians, min(theirs), min(ours), round(medians[0] / medians[1], 3))


def latencies(bench: Bench, cases: dict[str, str]) -> tuple[list[Comparison], list[Row], Footprint]:
    """Return seconds per proof of each circuit, for the history and as rows, and the servers' footprint."""
    with bench.both() as servers:
        before = [server.processor_s for server in servers]
        ports = [server.port for server in servers]
        found = [one_latency(circuit, name, bench.rounds, ports) for circuit, name in cases.items()]
        taken = footprint(bench, cases, servers, before)
    rows = [row(f"latency: {one.circuit}", "s", [one.reference_median_s], [one.ours_median_s], FASTER) for one in found]
    return found, [Row(**{**asdict(one), "rounds": bench.rounds}) for one in rows], taken


def configuration(table_memory: int, folded: dict[str, bool]) -> dict[str, object]:
    """Return the settings of our server that affect its speed and memory."""
    return {
        "table_mib": table_memory,
        "folded": folded,
        "kernel_threads": available_cpus(),
        "key_budget_mib": key_budget_bytes(0.0) // MIB,
        "proof_memory_mib": memory_limit_bytes() // 2 // MIB,
    }


def show(rows: list[Row]) -> None:
    """Print the table."""
    table = Table(title="Ours and the reference (gnark 0.8 in Go, 0.27.0), alternately; medians")
    for heading in ("what", "unit", "rounds", "reference", "ours", "times better", "required", "aim", ""):
        table.add_column(heading, justify="left" if heading in ("what", "unit", "") else "right")
    for one in rows:
        values = f"{one.reference:.3f}", f"{one.ours:.3f}", f"{one.ratio:.2f}", f"{one.required:g}", f"{one.aim:g}"
        verdict = "" if one.ratio >= one.required else "below"
        table.add_row(one.what, one.unit, str(one.rounds), *values, verdict)
    Console(width=None if sys.stdout.isatty() else 140).print(table)


def show_footprint(settings: dict[str, object], preparation: str, found: Sequence[Footprint]) -> None:
    """Print the settings, and memory and CPU time of the servers."""
    print("ours: " + ", ".join(f"{name} {value}" for name, value in settings.items() if name != "folded"))
    print(preparation)
    for one in found:
        sizes = f"resident {one.reference_resident_mib:.0f} / {one.our_resident_mib:.0f} MiB"
        peaks = f"peak {one.reference_peak_mib:.0f} / {one.our_peak_mib:.0f} MiB"
        times = f"CPU time {one.reference_processor_s:.1f} / {one.our_processor_s:.1f} s"
        print(f"{one.circuits}: prepared keys {one.prepared_mib:.0f} MiB, {sizes}, {peaks}, {times}")


@dataclass
class Results:
    """Results of a run."""

    results: list[Comparison] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    footprints: list[Footprint] = field(default_factory=list)

    def measure(self, bench: Bench, cases: dict[str, str], proofs: int, parts: Sequence[str]) -> None:
        """Add latencies and throughputs of some circuits, if ``parts`` has them."""
        if "latency" in parts:
            results, rows, taken = latencies(bench, cases)
            self.results += results
            self.rows += rows
            self.footprints.append(taken)
        if "throughput" in parts:
            self.rows += throughputs(bench, cases, proofs)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("--rounds", type=int, default=10, help="measured rounds of every row (default 10)")
    parser.add_argument("--proofs", type=int, default=8, help="proofs in a round of throughput (default 8)")
    key_preparation.add_preparation(parser)
    parser.add_argument("--small", action="store_true", help="omit the batches of 10 and the setup")
    parser.add_argument("--only", choices=PARTS, nargs="+", default=PARTS, help="rows to measure (default: all)")
    parser.add_argument("--history", type=Path, default=HISTORY, help="JSON-lines file to append to")


def main(options: argparse.Namespace) -> int:
    """Measure, print, and return the exit status."""
    binary = str(reference_fixtures.prover_binary())
    words = key_preparation.preparation(options)
    facts = machine_facts()
    found = Results()
    folded: dict[str, bool] = {}
    with key_preparation.prepared_folders(options) as (small, batch):
        bench = Bench(binary, reference_fixtures.proving_keys_dir(), MODE, small, options.rounds)
        if "start" in options.only:
            key_preparation.prepare_all(bench.keys_dir, bench.prepared, *words)
        elif {"latency", "throughput"} & set(options.only):
            key_preparation.prepare(CASES.values(), bench.keys_dir, bench.prepared, *words)
        if set(options.only) != {"setup"}:
            folded |= key_preparation.folded_keys(bench.keys_dir, bench.prepared)
        found.measure(bench, CASES, options.proofs, options.only)
        if "start" in options.only:
            found.rows += [*first_proofs(bench), resident_in_use(bench)]
        if not options.small and {"latency", "throughput"} & set(options.only):
            keys_dir = reference_batch_keys.batch_keys_dir()
            bench = Bench(binary, keys_dir, BATCH_MODE, batch, options.rounds)
            key_preparation.prepare(BATCH_CASES.values(), bench.keys_dir, bench.prepared, *words)
            folded |= key_preparation.folded_keys(bench.keys_dir, bench.prepared)
            found.measure(bench, BATCH_CASES, CLIENTS, options.only)
        if not options.small and "setup" in options.only:
            found.rows.append(setup(binary, options.rounds))
    show(found.rows)
    settings = configuration(options.table_memory, folded)
    show_footprint(settings, key_preparation.description(folded, words), found.footprints)
    keep(options.history, {**facts, **settings, **asdict(found)})
    options.history.with_suffix(".svg").write_text(draw(read_history(options.history.read_text().splitlines())))
    return 1 if any(one.ratio < one.required for one in found.rows) else 0
