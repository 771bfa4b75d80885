"""Everything that this prover promises beside the reference, in one run: `make bench-compare`.

Latency over HTTP of three small circuits and the three batches of 10, throughput with four clients, the first proof
after a start, resident memory with all published keys, and trusted setup. Both programs take turns; medians. Ours is in
one configuration: keys prepared with tables of --table-memory MiB each (0 by default, as without that option of
`prover keys prepare`). Beside each ratio stands what it must reach. Results are appended to the history with machine
and commit, and the history is drawn (plot_history.py). Run it on an otherwise idle machine; with batches it takes an
hour.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import compare_reference  # before the fixtures: shows the way to them
import compare_setup
import reference_batch_keys
import reference_fixtures
from bench_server import OURS, ServerProcess, running
from compare_reference import BATCH_CASES, BATCH_MODE, CASES, HISTORY, MODE, Comparison, for_reference, timed
from compare_service import bodies, one_round
from machine import machine_facts
from plot_history import draw, read_history
from rich.console import Console
from rich.table import Table

CLIENTS = 4
WARM_UP_ROUNDS = 1
RESIDENT_KEYS = 18
RESIDENT_DEADLINE_S = 300.0
FIRST_PROOF = "inclusion 32/1"
PREPARED = re.compile(r"\S+\.prepared$", re.MULTILINE)


@dataclass(frozen=True)
class Row:
    """One promise: medians of both in ``unit``, how many times better ours is, and what that must reach."""

    what: str
    unit: str
    rounds: int
    reference: float
    ours: float
    ratio: float
    required: float


def row(what: str, unit: str, theirs: list[float], ours: list[float], required: float, *, larger: bool = False) -> Row:
    """Medians and ratio; ``larger`` says that larger is better."""
    medians = statistics.median(theirs), statistics.median(ours)
    if not all(medians):
        sys.exit(f"{what}: no proof was made in time; is the machine busy?")
    ratio = medians[1] / medians[0] if larger else medians[0] / medians[1]
    return Row(what, unit, len(ours), *medians, round(ratio, 3), required)


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
            yield row(f"{CLIENTS} clients: {circuit}", "proofs/s", rates[0], rates[1], 3.0, larger=True)


def first_proofs(bench: Bench) -> Row:
    """Seconds from the start of the process to the first answer; keys on disk, page cache warm."""
    body = (compare_reference.REQUESTS / f"{CASES[FIRST_PROOF]}.json").read_bytes()
    seconds: list[list[float]] = [[], []]
    ways: tuple[Callable[[], contextlib.AbstractContextManager[ServerProcess]], ...] = (bench.reference, bench.ours)
    for _ in range(bench.rounds):
        for start, found in zip(ways, seconds, strict=True):
            begun = time.perf_counter()
            with start() as server:
                timed(server.port, body)
                found.append(time.perf_counter() - begun)
    return row(f"first proof after start: {FIRST_PROOF}", "s", seconds[0], seconds[1], 20.0)


def resident(bench: Bench) -> Row:
    """Resident memory, mapped pages included, once all published keys are loaded; nothing was proved yet."""
    with bench.reference() as theirs:
        reference = theirs.resident_bytes / 2**20
    with bench.ours("--preload-keys", "local-rpc") as ours:
        deadline = time.monotonic() + RESIDENT_DEADLINE_S
        while len(set(PREPARED.findall(Path(f"/proc/{ours.pid}/maps").read_text()))) < RESIDENT_KEYS:
            if time.monotonic() > deadline:
                sys.exit("our server did not map all keys")
            time.sleep(0.1)
        return row(f"resident with {RESIDENT_KEYS} keys", "MiB", [reference], [ours.resident_bytes / 2**20], 2.0)


def setup(rounds: int) -> Row:
    """Seconds of a trusted setup, whole processes."""
    found = compare_setup.compare(rounds, None)
    return row(f"setup: {found.circuit}", "s", found.reference_s, found.ours_s, 4.0)


def latencies(bench: Bench, cases: dict[str, str]) -> tuple[list[Comparison], list[Row]]:
    """Seconds per proof of each circuit, for the history and as rows."""
    with bench.both() as (theirs, ours):
        found = compare_reference.compare(cases, bench.rounds, theirs.port, ours.port)
    rows = [row(f"latency: {one.circuit}", "s", [one.reference_median_s], [one.ours_median_s], 3.0) for one in found]
    return found, [Row(**{**asdict(one), "rounds": bench.rounds}) for one in rows]


def show(rows: list[Row]) -> None:
    """Print the table."""
    table = Table(title="Ours beside the reference (gnark 0.8 in Go, 0.27.0); medians, both in turn")
    for heading in ("what", "unit", "rounds", "reference", "ours", "times better", "must reach", ""):
        table.add_column(heading, justify="left" if heading in ("what", "unit", "") else "right")
    for one in rows:
        values = f"{one.reference:.3f}", f"{one.ours:.3f}", f"{one.ratio:.2f}", f"{one.required:g}"
        verdict = "" if one.ratio >= one.required else "below"
        table.add_row(one.what, one.unit, str(one.rounds), *values, verdict)
    Console(width=None if sys.stdout.isatty() else 130).print(table)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="measured rounds of every row (default 10)")
    parser.add_argument("--proofs", type=int, default=8, help="proofs in a round of throughput (default 8)")
    parser.add_argument("--table-memory", type=int, default=0, metavar="MIB", help="as of `prover keys prepare`")
    parser.add_argument(
        "--small", action="store_true", help="leave out batches of 10 and the setup, which take longest"
    )
    parser.add_argument("--history", type=Path, default=HISTORY, help="JSON-lines file to append to")
    options = parser.parse_args()
    binary = str(reference_fixtures.prover_binary())
    room = ("--table-memory", str(options.table_memory))
    results: list[Comparison] = []
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        small, batch = Path(name) / "small", Path(name) / "batch"
        bench = Bench(binary, reference_fixtures.proving_keys_dir(), MODE, small, options.rounds)
        compare_reference.prepare_all(bench.keys_dir, small, *room)
        found, latency_rows = latencies(bench, CASES)
        results += found
        rows += [*latency_rows, *throughputs(bench, CASES, options.proofs), first_proofs(bench), resident(bench)]
        if not options.small:
            bench = Bench(binary, reference_batch_keys.batch_keys_dir(), BATCH_MODE, batch, options.rounds)
            compare_reference.prepare(BATCH_CASES, bench.keys_dir, batch, *room)
            found, latency_rows = latencies(bench, BATCH_CASES)
            results += found
            rows += [*latency_rows, *throughputs(bench, BATCH_CASES, CLIENTS), setup(options.rounds)]
    show(rows)
    print(f"tables: {options.table_memory} MiB per key")
    facts = {**machine_facts(), "table_mib": options.table_memory}
    with options.history.open("a") as out:
        record = {**facts, "results": [asdict(one) for one in results], "rows": [asdict(one) for one in rows]}
        out.write(json.dumps(record) + "\n")
    options.history.with_suffix(".svg").write_text(draw(read_history(options.history.read_text().splitlines())))
    return 1 if any(one.ratio < one.required for one in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
