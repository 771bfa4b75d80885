"""Everything that this prover promises beside the reference, in one run: `make bench-compare`.

Latency over HTTP of three small circuits and the three batches of 10, throughput with four clients, the first proof
after a start, resident memory with all published keys, and trusted setup. Both programs take turns; medians. Ours is in
one configuration, which is printed: keys prepared as `prover keys prepare` does by default, folded and without tables
(--no-fold and --table-memory are its options), all else as after installing. Folding takes three minutes on two
processors for the published keys and ten minutes with the batches of 10; --prepared-dir keeps what was prepared for the
next run. Beside each ratio stands what it must reach and what is aimed at. The memory and the processor time of both
servers while they took turns are printed, too. Results are appended to the history with machine and commit, and the
history is drawn (plot_history.py). Run it on an otherwise idle machine; with batches it takes an hour, and nothing may
change in the source tree meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import compare_reference  # before the fixtures: shows the way to them
import compare_setup
import reference_batch_keys
import reference_fixtures
from bench_server import OURS, ServerProcess, running
from compare_reference import BATCH_CASES, BATCH_MODE, CASES, HISTORY, MODE, Comparison, for_reference, timed
from compare_service import bodies, one_round
from machine import keep, machine_facts
from plot_history import draw, read_history
from rich.console import Console
from rich.table import Table

from prover.cli.made_up_requests import MadeUpRequests
from prover.cpu.cpu_count import available_processors
from prover.keys.files.key_folder import installed_keys
from prover.keys.files.memory_budget import key_budget_bytes
from prover.observability.memory import memory_limit_bytes
from shared.proof_wire import encode_request

CLIENTS = 4
PARTS = ("latency", "throughput", "start", "setup")
MIB = 2**20
WARM_UP_ROUNDS = 1
RESIDENT_KEYS = 18
RESIDENT_DEADLINE_S = 300.0
FIRST_PROOF = "inclusion 32/1"
PREPARED = re.compile(r"\S+\.prepared$", re.MULTILINE)


@dataclass(frozen=True)
class Row:
    """One promise: medians of both in ``unit``, how many times better ours is, what that must reach, and the aim."""

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
"""What a ratio must reach, and the aim."""


def row(what: str, unit: str, theirs: list[float], ours: list[float], goal: Goal, *, larger: bool = False) -> Row:
    """Medians and ratio; ``larger`` says that larger is better."""
    medians = statistics.median(theirs), statistics.median(ours)
    if not all(medians):
        sys.exit(f"{what}: no proof was made in time; is the machine busy?")
    ratio = medians[1] / medians[0] if larger else medians[0] / medians[1]
    return Row(what, unit, len(ours), *medians, round(ratio, 3), *goal)


@dataclass(frozen=True)
class Bench:
    """What all measurements of one key folder share."""

    binary: str
    keys_dir: Path
    mode: tuple[str, ...]
    prepared: Path
    rounds: int

    @contextlib.contextmanager
    def both(self) -> Iterator[tuple[ServerProcess, ServerProcess]]:
        """The reference and ours, running."""
        with self.reference() as theirs, self.ours() as ours:
            yield theirs, ours

    def reference(self) -> contextlib.AbstractContextManager[ServerProcess]:
        """The reference's server."""
        return running(self.binary, self.keys_dir, *self.mode)

    def ours(self, *extra: str) -> contextlib.AbstractContextManager[ServerProcess]:
        """Our server over the prepared keys."""
        variables = {"PROVER_KEYS__PREPARED_DIRECTORY": str(self.prepared)}
        return running(OURS, self.keys_dir, *extra, variables=variables)


def throughputs(bench: Bench, cases: dict[str, str], proofs: int) -> Iterator[Row]:
    """Proofs per second with several clients in closed loops."""
    with bench.both() as servers:
        for circuit, name in cases.items():
            rates: list[list[float]] = [[], []]
            sources = (map(for_reference, bodies(f"{name}.json")), bodies(f"{name}.json"))
            for number in range(bench.rounds + WARM_UP_ROUNDS):
                for server, source, found in zip(servers, sources, rates, strict=True):
                    seconds, latencies, refused = asyncio.run(one_round(server.port, CLIENTS, proofs, source))
                    if refused and number >= WARM_UP_ROUNDS:
                        print(f"{circuit}: {refused} of {proofs} requests were refused", file=sys.stderr)
                    if number >= WARM_UP_ROUNDS:
                        found.append(len(latencies) / seconds)
            yield row(f"{CLIENTS} clients: {circuit}", "proofs/s", rates[0], rates[1], FASTER, larger=True)


def first_proofs(bench: Bench) -> Iterator[Row]:
    """Seconds from the start of the process to the first answer; keys on disk, page cache warm.

    Before its first proof the reference has loaded all its keys, which is when its memory is read.
    """
    body = (compare_reference.REQUESTS / f"{CASES[FIRST_PROOF]}.json").read_bytes()
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
    """Our server once all published keys are loaded; nothing was proved yet."""
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
    """Resident memory, mapped pages included, after a proof under each of the published keys."""
    made_up = MadeUpRequests("resident")
    bodies_of_all = [encode_request(made_up.make(circuit)) for circuit in installed_keys(bench.keys_dir)]
    with bench.reference() as theirs, preloaded(bench) as ours:
        for server in (theirs, ours):
            for body in bodies_of_all:
                timed(server.port, body)
        sizes = [theirs.resident_bytes / MIB, ours.resident_bytes / MIB]
    return row(f"resident after a proof by each of {RESIDENT_KEYS} keys", "MiB", sizes[:1], sizes[1:], SMALLER)


def setup(rounds: int) -> Row:
    """Seconds of a trusted setup, whole processes."""
    found = compare_setup.compare(rounds, None)
    return row(f"setup: {found.circuit}", "s", found.reference_s, found.ours_s, SETUP)


@dataclass(frozen=True)
class Footprint:
    """What both servers took while they proved ``circuits`` in turn: MiB, and processor seconds of all those proofs."""

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
    """Read it off the servers; ``before``: their processor seconds when the proofs began."""
    resident = [server.resident_bytes / MIB for server in servers]
    peak = [server.peak_resident_bytes / MIB for server in servers]
    processor = [server.processor_s - start for server, start in zip(servers, before, strict=True)]
    prepared = compare_reference.mapped_bytes(bench.prepared) / MIB
    return Footprint(", ".join(cases), *(round(number, 2) for number in (prepared, *resident, *peak, *processor)))


def latencies(bench: Bench, cases: dict[str, str]) -> tuple[list[Comparison], list[Row], Footprint]:
    """Seconds per proof of each circuit, for the history and as rows, and what the servers took."""
    with bench.both() as servers:
        before = [server.processor_s for server in servers]
        found = compare_reference.compare(cases, bench.rounds, servers[0].port, servers[1].port)
        taken = footprint(bench, cases, servers, before)
    rows = [row(f"latency: {one.circuit}", "s", [one.reference_median_s], [one.ours_median_s], FASTER) for one in found]
    return found, [Row(**{**asdict(one), "rounds": bench.rounds}) for one in rows], taken


def configuration(table_memory: int, folded: dict[str, bool]) -> dict[str, object]:
    """How our server runs: what decides about its speed and memory."""
    return {
        "table_mib": table_memory,
        "folded": folded,
        "kernel_threads": available_processors(),
        "key_budget_mib": key_budget_bytes(0.0) // MIB,
        "proof_memory_mib": memory_limit_bytes() // 2 // MIB,
    }


def show(rows: list[Row]) -> None:
    """Print the table."""
    table = Table(title="Ours beside the reference (gnark 0.8 in Go, 0.27.0); medians, both in turn")
    for heading in ("what", "unit", "rounds", "reference", "ours", "times better", "must reach", "aim", ""):
        table.add_column(heading, justify="left" if heading in ("what", "unit", "") else "right")
    for one in rows:
        values = f"{one.reference:.3f}", f"{one.ours:.3f}", f"{one.ratio:.2f}", f"{one.required:g}", f"{one.aim:g}"
        verdict = "" if one.ratio >= one.required else "below"
        table.add_row(one.what, one.unit, str(one.rounds), *values, verdict)
    Console(width=None if sys.stdout.isatty() else 140).print(table)


def show_footprint(settings: dict[str, object], preparation: str, found: Sequence[Footprint]) -> None:
    """Print the configuration, and what the servers took."""
    print("ours: " + ", ".join(f"{name} {value}" for name, value in settings.items() if name != "folded"))
    print(preparation)
    for one in found:
        sizes = f"resident {one.reference_resident_mib:.0f} / {one.our_resident_mib:.0f} MiB"
        peaks = f"peak {one.reference_peak_mib:.0f} / {one.our_peak_mib:.0f} MiB"
        times = f"processor time {one.reference_processor_s:.1f} / {one.our_processor_s:.1f} s"
        print(f"{one.circuits}: prepared keys {one.prepared_mib:.0f} MiB, {sizes}, {peaks}, {times}")


@dataclass
class Found:
    """What a run measured."""

    results: list[Comparison] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    footprints: list[Footprint] = field(default_factory=list)

    def measure(self, bench: Bench, cases: dict[str, str], proofs: int, parts: Sequence[str]) -> None:
        """Latencies and throughputs of some circuits, as far as they are among the parts."""
        if "latency" in parts:
            results, rows, taken = latencies(bench, cases)
            self.results += results
            self.rows += rows
            self.footprints.append(taken)
        if "throughput" in parts:
            self.rows += throughputs(bench, cases, proofs)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="measured rounds of every row (default 10)")
    parser.add_argument("--proofs", type=int, default=8, help="proofs in a round of throughput (default 8)")
    compare_reference.add_preparation(parser)
    parser.add_argument(
        "--small", action="store_true", help="leave out batches of 10 and the setup, which take longest"
    )
    parser.add_argument("--only", choices=PARTS, nargs="+", default=PARTS, help="these rows (default: all)")
    parser.add_argument("--history", type=Path, default=HISTORY, help="JSON-lines file to append to")
    options = parser.parse_args()
    binary = str(reference_fixtures.prover_binary())
    words = compare_reference.preparation(options)
    facts = machine_facts()
    found = Found()
    folded: dict[str, bool] = {}
    with compare_reference.prepared_folders(options) as (small, batch):
        bench = Bench(binary, reference_fixtures.proving_keys_dir(), MODE, small, options.rounds)
        if {"latency", "throughput", "start"} & set(options.only):
            compare_reference.prepare_all(bench.keys_dir, bench.prepared, *words)
            folded |= compare_reference.folded_keys(bench.keys_dir, bench.prepared)
        found.measure(bench, CASES, options.proofs, options.only)
        if "start" in options.only:
            found.rows += [*first_proofs(bench), resident_in_use(bench)]
        if not options.small and {"latency", "throughput"} & set(options.only):
            keys_dir = reference_batch_keys.batch_keys_dir()
            bench = Bench(binary, keys_dir, BATCH_MODE, batch, options.rounds)
            compare_reference.prepare(BATCH_CASES, bench.keys_dir, bench.prepared, *words)
            folded |= compare_reference.folded_keys(bench.keys_dir, bench.prepared)
            found.measure(bench, BATCH_CASES, CLIENTS, options.only)
        if not options.small and "setup" in options.only:
            found.rows.append(setup(options.rounds))
    show(found.rows)
    settings = configuration(options.table_memory, folded)
    show_footprint(settings, compare_reference.told(folded, words), found.footprints)
    keep(options.history, {**facts, **settings, **asdict(found)})
    options.history.with_suffix(".svg").write_text(draw(read_history(options.history.read_text().splitlines())))
    return 1 if any(one.ratio < one.required for one in found.rows) else 0


if __name__ == "__main__":
    sys.exit(main())
