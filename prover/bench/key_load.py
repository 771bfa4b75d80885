"""Times of loading keys: by the reference, by our prover from the same files, and from prepared files.

The reference's binary (npm package 0.27.0) reads all keys of a run mode when it starts and prints a line before and
after each; the time between the two lines is its load. Ours is the load on first use of a key, without and with a
prepared file. The page cache is warm. The three run alternately; medians and ratios are printed.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import IO, cast

import reference_batch_keys
import reference_fixtures
from bench_server import START_DEADLINE_S, free_port, start_command
from machine import machine_facts
from proof_requests import BATCH_MODE, MODE
from rich.console import Console
from rich.table import Table

from prover.kernel.engine import Engine, LoadedKey
from prover.keys.prepared import prepared_keys

REQUIRED_RATIO = 50.0
PREPARED_LOADS = 5
"""Loads per round; one alone is too short to time."""
BEGIN = re.compile(r"Reading proving system from file (\S+\.key)")
END = re.compile(r"Read \w*ProvingSystem")
SERVING = "prover server started"


@dataclass(frozen=True)
class Comparison:
    """Median seconds of loading one key, and reference / ours for both ways."""

    key: str
    file_bytes: int
    prepared_bytes: int
    rounds: int
    reference_s: float
    gnark_s: float
    prepared_s: float
    gnark_ratio: float
    prepared_ratio: float


def reference_loads(keys_dir: Path, mode: tuple[str, ...]) -> dict[str, float]:
    """Return seconds per key of one start of the reference. Exits if it loads no key."""
    binary = str(reference_fixtures.prover_binary())
    arguments = start_command(binary, keys_dir, free_port(), free_port(), *mode)
    seconds: dict[str, float] = {}
    tail: list[str] = []
    deadline = time.monotonic() + START_DEADLINE_S
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder) as process,
    ):
        output = cast("IO[str]", process.stdout)
        name, begun = "", 0.0
        for line in output:
            now = time.perf_counter()
            tail = [*tail[-20:], line]
            if found := BEGIN.search(line):
                name, begun = Path(found[1]).name, now
            elif name and END.search(line):
                seconds[name] = now - begun
                name = ""
            if SERVING in line or time.monotonic() > deadline:
                break
        process.kill()
        output.read()
    if not seconds:
        sys.exit("the reference loaded no key; its output ends with:\n" + "".join(tail))
    return seconds


def timed(load: Callable[[], LoadedKey]) -> float:
    """Return the seconds of one load."""
    start = time.perf_counter()
    key = load()
    seconds = time.perf_counter() - start
    key.close()
    return seconds


def compare(keys_dir: Path, mode: tuple[str, ...], rounds: int, folder: Path) -> list[Comparison]:
    """Load all keys in the three ways alternately."""
    times: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with Engine() as engine:
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
            for name, seconds in reference_loads(keys_dir, mode).items():
                source = keys_dir / name
                prepared_keys.prepare(engine, source, folder)
                times[name]["reference"].append(seconds)
                times[name]["gnark"].append(timed(partial(prepared_keys.load_source, engine, source)))
                for _ in range(PREPARED_LOADS):
                    times[name]["prepared"].append(timed(partial(mapped, engine, source, folder)))
        return [
            comparison(keys_dir / name, prepared_keys.path_of(engine, keys_dir / name, folder), rounds, measured)
            for name, measured in times.items()
        ]


def mapped(engine: Engine, source: Path, folder: Path) -> LoadedKey:
    """Load a prepared file. Exits if the source was loaded instead."""
    key = prepared_keys.load(engine, source, folder)
    if not key.is_prepared:
        sys.exit(f"{source.name} was not loaded from its prepared form")
    return key


def comparison(source: Path, form: Path, rounds: int, measured: dict[str, list[float]]) -> Comparison:
    """Return medians and ratios of one key."""
    reference, gnark, ours = (statistics.median(measured[way]) for way in ("reference", "gnark", "prepared"))
    sizes = source.stat().st_size, form.stat().st_size
    ratios = round(reference / gnark, 2), round(reference / ours, 1)
    return Comparison(source.stem, *sizes, rounds, reference, gnark, ours, *ratios)


def show(results: list[Comparison]) -> None:
    """Print the table."""
    table = Table(title="Loading keys, page cache warm; the reference is gnark 0.8 in Go (0.27.0)")
    for heading in ("key", "MB", "prepared MB", "reference s", "ours s", "prepared ms", "times faster", "prepared"):
        table.add_column(heading, justify="left" if heading == "key" else "right")
    for r in results:
        sizes = f"{r.file_bytes / 1e6:.1f}", f"{r.prepared_bytes / 1e6:.1f}"
        seconds = f"{r.reference_s:.3f}", f"{r.gnark_s:.3f}", f"{r.prepared_s * 1e3:.2f}"
        table.add_row(r.key, *sizes, *seconds, f"{r.gnark_ratio:.2f}", f"{r.prepared_ratio:.0f}")
    Console(width=120).print(table)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("--rounds", type=int, default=3, help="starts of the reference (default 3)")
    parser.add_argument("--batch", action="store_true", help="the batches of 10 in place of the published keys")
    parser.add_argument("--json", type=Path, help="output file of the results")


def main(options: argparse.Namespace) -> int:
    """Measure, print, and return the exit status."""
    keys_dir = reference_batch_keys.batch_keys_dir() if options.batch else reference_fixtures.proving_keys_dir()
    with tempfile.TemporaryDirectory(dir=keys_dir.parent) as folder:
        results = compare(keys_dir, BATCH_MODE if options.batch else MODE, options.rounds, Path(folder))
    show(results)
    if options.json:
        options.json.write_text(
            json.dumps({**machine_facts(), "results": [asdict(r) for r in results]}, indent=2) + "\n"
        )
    slow = [r.key for r in results if r.prepared_ratio < REQUIRED_RATIO]
    if slow:
        print(f"below {REQUIRED_RATIO:.0f} times the reference: {', '.join(slow)}", file=sys.stderr)
    return 1 if slow else 0
