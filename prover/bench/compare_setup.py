"""Trusted setup against the reference prover, side by side.

Runs `setup` of the reference's published binary (npm package 0.27.0) and ours in turn, for batch append 32/10, into a
scratch folder, and prints the medians and their ratio. Both times are of whole processes: compiling the circuit, the
setup itself and writing the files. Run it on an otherwise idle machine:

    .venv/bin/python prover/bench/compare_setup.py            # three rounds; some minutes
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from bench_server import OURS
from machine import machine_facts

PROVER_ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROVER_ROOT / "scripts"))

import reference_fixtures  # noqa: E402 - found through the line above

REQUIRED_RATIO = 4.0
SIZES = ("--append-tree-height=32", "--append-batch-size=10")
REFERENCE_CIRCUIT, OUR_CIRCUIT = "append-with-proofs", "append"


@dataclass(frozen=True)
class Comparison:
    """Seconds per setup, in the order of the rounds; ``ratio`` is reference / ours, median by median."""

    circuit: str
    reference_s: list[float]
    ours_s: list[float]
    ratio: float


def timed(binary: str, circuit: str, folder: Path) -> float:
    """Seconds of one setup; ends the program when it fails."""
    key, text = folder / "a.key", folder / "a.vkey"
    command = [binary, "setup", f"--circuit={circuit}", *SIZES, f"--output={key}", f"--output-vkey={text}"]
    start = time.perf_counter()
    answer = subprocess.run(command, capture_output=True, check=False)
    seconds = time.perf_counter() - start
    if answer.returncode != 0 or not key.exists():
        sys.exit(f"{binary} setup failed with {answer.returncode}: {answer.stderr[-500:]!r}")
    for path in folder.iterdir():
        path.unlink()
    return seconds


def compare(rounds: int, scratch: Path | None) -> Comparison:
    """Run both in turn."""
    reference = str(reference_fixtures.prover_binary())
    theirs: list[float] = []
    ours: list[float] = []
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        folder = Path(name)
        for number in range(1, rounds + 1):
            theirs.append(timed(reference, REFERENCE_CIRCUIT, folder))
            ours.append(timed(OURS, OUR_CIRCUIT, folder))
            print(f"round {number}: reference {theirs[-1]:.2f} s, ours {ours[-1]:.2f} s", file=sys.stderr)
    return Comparison("batch append 32/10", theirs, ours, statistics.median(theirs) / statistics.median(ours))


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="rounds, each of one run of both (default 3)")
    parser.add_argument("--scratch", type=Path, help="folder for the keys, 150 MB (default: the system's)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a sentence")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    result = compare(options.rounds, options.scratch)
    if options.json:
        print(json.dumps(machine_facts() | asdict(result)))
    else:
        medians = statistics.median(result.reference_s), statistics.median(result.ours_s)
        print(f"{result.circuit}: reference {medians[0]:.2f} s, ours {medians[1]:.2f} s, ratio {result.ratio:.2f}")
    if result.ratio < REQUIRED_RATIO:
        print(f"below {REQUIRED_RATIO} times the reference", file=sys.stderr)
    return 1 if result.ratio < REQUIRED_RATIO else 0


if __name__ == "__main__":
    sys.exit(main())
