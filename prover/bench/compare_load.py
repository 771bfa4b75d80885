"""Times of loading keys: the reference prover, our reading of the same files, and our prepared forms of them.

The reference's published binary (npm package 0.27.0) reads all keys of a run mode when it starts and writes a line
before and after each; the time between the two lines, as they come out of a pipe, is its load. Ours is what
`prover start` does on first use of a key: without a prepared form, and with one, page cache warm in all three cases.
The three take turns, round by round; medians and ratios are printed. Run it on an otherwise idle machine.

With --batch the size-10 batch keys are measured in place of the small ones (see scripts/reference_batch_keys.py).
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

from bench_server import START_DEADLINE_S, free_port, start_command
from machine import machine_facts
from rich.console import Console
from rich.table import Table

PROVER_ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROVER_ROOT / "scripts"))

import reference_batch_keys  # noqa: E402 - found through the line above
import reference_fixtures  # noqa: E402

from prover.kernel.engine import Engine, LoadedKey  # noqa: E402
from prover.keys.prepared import prepared_keys as prepared  # noqa: E402

REQUIRED_RATIO = 50.0
PREPARED_LOADS = 5
"""Per round; one is too short to stand alone."""
BEGIN = re.compile(r"Reading proving system from file (\S+\.key)")
END = re.compile(r"Read \w*ProvingSystem")
SERVING = "prover server started"
BATCH_CIRCUITS = ("append-with-proofs-test", "update-test", "address-append-test")
MODE = ("--run-mode", "local-rpc")
BATCH_MODE = tuple(word for circuit in BATCH_CIRCUITS for word in ("--circuit", circuit))


@dataclass(frozen=True)
class Comparison:
    """Median seconds of loading one key, and how many times faster our two ways are than the reference."""

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
    """Seconds per key of one start of the reference; ends the program when it does not come up."""
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
    """Seconds until a key is ready."""
    start = time.perf_counter()
    key = load()
    seconds = time.perf_counter() - start
    key.close()
    return seconds


def compare(keys_dir: Path, mode: tuple[str, ...], rounds: int, folder: Path) -> list[Comparison]:
    """Let the three load all keys in turn."""
    times: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with Engine() as engine:
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
            for name, seconds in reference_loads(keys_dir, mode).items():
                source = keys_dir / name
                prepared.prepare(engine, source, folder)
                times[name]["reference"].append(seconds)
                times[name]["gnark"].append(timed(partial(prepared.load_source, engine, source)))
                for _ in range(PREPARED_LOADS):
                    times[name]["prepared"].append(timed(partial(mapped, engine, source, folder)))
        return [
            comparison(keys_dir / name, prepared.path_of(engine, keys_dir / name, folder), rounds, measured)
            for name, measured in times.items()
        ]


def mapped(engine: Engine, source: Path, folder: Path) -> LoadedKey:
    """The prepared form; ends the program when it was not used."""
    key = prepared.load(engine, source, folder)
    if not key.is_prepared:
        sys.exit(f"{source.name} was not loaded from its prepared form")
    return key


def comparison(source: Path, form: Path, rounds: int, measured: dict[str, list[float]]) -> Comparison:
    """Medians and ratios of one key."""
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


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="starts of the reference (default 3)")
    parser.add_argument("--batch", action="store_true", help="the size-10 batch keys, in place of the small ones")
    parser.add_argument("--json", type=Path, help="file for the results")
    options = parser.parse_args()
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


if __name__ == "__main__":
    sys.exit(main())
