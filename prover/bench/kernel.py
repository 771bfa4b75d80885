"""Times of the kernel's parts on one thread: products, additions, multi-scalar multiplications, transforms.

Builds native/bench/kernel_bench.c for the backend that this CPU runs (or --backend) and prints medians of --rounds
rounds in CPU time, as a table and as one line of JSON with machine and commit, which is appended to a history.
Additions are counted; "of bound" is the part of the time that their field products would take alone.

With --peer another program runs alternately with ours, and "ratio" is peer / ours. To build gnark-crypto's: `cd
prover/bench/peers/gnark_crypto && go mod tidy && go build -o kernelbench`. The peer may also be an earlier build of
native/bench (`prover/scripts/native bench BACKEND` prints its path); --gate PERCENT then fails when a median is longer
by more than that. The names of sums over tables of precomputed bases end with `_f` and a factor: the memory that they
take, in multiples of the bases. `make bench-kernel`; takes minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from bench_report import Report
from machine import keep, machine_facts
from rich.console import Console
from rich.progress import track

ROOT = Path(__file__).resolve().parents[2]
HISTORY = Path(__file__).parent / "history" / "kernel.jsonl"
BACKENDS = ("portable", "adx", "avx2", "avx512", "ifma")
COLUMNS = (
    *("name", "ns", "ms", "ns_per_point", "ns_per_butterfly", "additions", "ns_per_addition", "of_bound"),
    *("peer", "ratio"),
)
TIMES = ("ms", "ns")
IN_LANES = {"fp8_mul_tput": "fp_mul_tput", "fp8_sqr_tput": "fp_sqr_tput"}
"""The measurements of a peer without lanes that are compared with these."""
OF_THE_MACHINE = ("clock", "fp_mul_bound")
"""Measurements of the machine, not of a program."""
FACTOR = re.compile(r"_f\d+$")
"""Suffix of a sum over tables; it is compared with the plain sum of a peer without tables."""
Round = dict[str, dict[str, float]]


def build(backend: str) -> Path:
    """Build the program for one backend; return its path."""
    answer = subprocess.run(
        [ROOT / "prover/scripts/native", "bench", backend], stdout=subprocess.PIPE, text=True, check=True
    )
    return ROOT / answer.stdout.strip()


class Program:
    """A program that measures everything once for every line of input."""

    def __init__(self, path: Path, sizes: Sequence[int]) -> None:
        self._process = subprocess.Popen(
            [str(path), *map(str, sizes)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def measure(self) -> Round:
        """Return one round, by name. Exits if the program ends."""
        source, sink = self._process.stdout, self._process.stdin
        if source is None or sink is None:
            raise ValueError("the program has no pipes")
        with contextlib.suppress(BrokenPipeError):  # it has ended: the next read fails
            sink.write("\n")
            sink.flush()
        found: Round = {}
        for line in iter(source.readline, ""):
            if not line.strip():
                return found
            record = json.loads(line)
            found[record.pop("name")] = record
        sys.exit(f"{self._process.args!r} ended with {self._process.wait()} in the middle of a round")

    def close(self) -> None:
        """Close the program's input and wait for its end."""
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate()


def medians(rounds: Sequence[Round]) -> dict[str, dict[str, float]]:
    """Return the median of every number over the rounds."""
    numbers: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in rounds:
        for name, record in one.items():
            for column, value in record.items():
                numbers[name][column].append(value)
    return {
        name: {column: statistics.median(all_) for column, all_ in record.items()} for name, record in numbers.items()
    }


def time_of(record: dict[str, float]) -> float:
    """Return nanoseconds of one operation, or milliseconds of a sum or transform."""
    return next(record[column] for column in TIMES if column in record)


def peer_time(peer: dict[str, float], name: str) -> float | None:
    """Return the peer's time of a measurement, or of the one that it is compared with."""
    return peer.get(name) or peer.get(IN_LANES.get(name, FACTOR.sub("", name)))


def slower(ours: Round, peer: dict[str, float], percent: float) -> list[str]:
    """Return the measurements in which ours takes longer than the peer by more than so many percent."""
    both = {name: peer[name] for name in ours if name in peer and name not in OF_THE_MACHINE}
    return [name for name, theirs in both.items() if time_of(ours[name]) > theirs * (1 + percent / 100)]


def joined(ours: Round, peer: dict[str, float]) -> list[dict[str, float | str]]:
    """Return one record per measurement, with the peer's time and its ratio to ours."""
    records: list[dict[str, float | str]] = []
    for name, numbers in ours.items():
        theirs = peer_time(peer, name)
        beside = {"peer": theirs, "ratio": round(theirs / time_of(numbers), 2)} if theirs else {}
        records.append({"name": name, **numbers, **beside})
    return records


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("--backend", choices=BACKENDS, help="default: the one that this CPU runs")
    parser.add_argument("--program", type=Path, help="kernel_bench of an earlier build (default: build it)")
    parser.add_argument("--g1", type=int, default=18, metavar="LOG2", help="points of the largest sum (default: 18)")
    parser.add_argument(
        "--g2", type=int, default=18, metavar="LOG2", help="points of the largest sum in G2 (default: 18)"
    )
    parser.add_argument("--ntt", type=int, default=20, metavar="LOG2", help="the largest transform (default: 20)")
    parser.add_argument(
        "--tables", type=int, default=13, metavar="LOG2", help="a sum over tables; 0: none (default: 13)"
    )
    parser.add_argument(
        "--factor", type=int, default=20, help="maximum size of its tables, in multiples of the bases (default: 20)"
    )
    parser.add_argument("--rounds", type=int, default=10, help="measured rounds, after one that is not (default: 10)")
    parser.add_argument(
        "--peer", type=Path, metavar="PROGRAM", help="program of bench/peers or an earlier build, measured alternately"
    )
    parser.add_argument(
        "--gate", type=float, metavar="PERCENT", help="fail when a median is longer than --peer's by more"
    )
    parser.add_argument("--history", type=Path, default=HISTORY, metavar="FILE", help="JSON-lines file to append to")


def main(options: argparse.Namespace) -> int:
    """Measure, print, and return the exit status."""
    if options.gate is not None and options.peer is None:
        sys.exit("--gate needs --peer")
    facts = machine_facts()
    backend = options.backend or str(facts["backend"])
    sizes = (options.g1, options.g2, options.ntt, options.tables, options.factor)
    with contextlib.ExitStack() as stack:
        programs = [options.program or build(backend), *([options.peer.resolve()] if options.peer else [])]
        processes = [stack.enter_context(contextlib.closing(Program(path, sizes))) for path in programs]
        found: list[list[Round]] = [[] for _ in processes]
        for number in track(range(options.rounds + 1), "rounds", console=Console(stderr=True)):
            for process, rounds in zip(processes, found, strict=True):
                measured = process.measure()
                if number:
                    rounds.append(measured)
    peer = {name: time_of(record) for name, record in medians(found[1]).items()} if options.peer else {}
    ours = medians(found[0])
    results = joined(ours, peer)
    beside = options.peer.resolve().parent.name if options.peer else "none"
    columns = [name for name in COLUMNS if any(name in result for result in results)]
    title = f"kernel, backend {backend}, one thread; peer: {beside}"
    Report({title: [{name: result.get(name, "") for name in columns} for result in results]}).write(as_json=False)
    record = {**facts, "backend": backend, "rounds": options.rounds, "peer": beside, "results": results}
    keep(options.history, record)
    worse = slower(ours, peer, options.gate) if options.gate is not None else []
    if worse:
        print(f"longer than before by more than {options.gate:g} %: {', '.join(worse)}", file=sys.stderr)
    return 1 if worse else 0
