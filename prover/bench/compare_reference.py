"""Proof times against the reference prover, side by side.

Starts the reference's published binary (npm package 0.27.0, run mode local-rpc) and our service on the same machine
with the same keys, sends the same requests to one after the other in turn, and prints medians and ratios. Every answer
of both is a full HTTP exchange with keys resident and warm; ours includes verifying the proof. Our keys are prepared
first, as `prover keys prepare` does by default: folded, without tables; --no-fold and --table-memory are its options.
Which were folded is printed and kept. With --batch the size-10 batch keys are measured in place of the small ones (see
scripts/reference_batch_keys.py); to fold those takes eight minutes on two processors. Results are appended to a
JSON-lines history. Run it on an otherwise idle machine: `make bench`.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench_server import OURS, running
from machine import keep, machine_facts
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from prover.kernel.engine import Engine
from prover.keys.files.key_folder import find_key
from prover.keys.prepared import prepared_keys as prepared
from shared.circuit_id import CircuitId

PROVER_ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROVER_ROOT / "scripts"))

import reference_batch_keys  # noqa: E402 - found through the line above
import reference_fixtures  # noqa: E402 - likewise

REQUESTS = PROVER_ROOT / "tests" / "vectors" / "prover"
HISTORY = PROVER_ROOT / "bench" / "history.jsonl"
REQUEST_DEADLINE_S = 120.0
WARM_UP_ROUNDS = 3
CASES = {
    "inclusion 32/1": "v2_inclusion_32_1",
    "non-inclusion 40/1": "v2_non-inclusion_40_1",
    "combined 32/40 1_1": "v2_combined_32_40_1_1",
}
BATCH_CASES = {
    "append 32/10": "batch_append_32_10",
    "update 32/10": "batch_update_32_10",
    "address-append 40/10": "batch_address-append_40_10",
}
"""Circuits, whose requests have their names too."""
MODE = ("--run-mode", "local-rpc")
BATCH_MODE = tuple(
    word for name in ("append-with-proofs-test", "update-test", "address-append-test") for word in ("--circuit", name)
)
REQUIRED_RATIO = 1.5


@dataclass(frozen=True)
class Comparison:
    """Seconds per proof: medians, fastest runs, and how many times faster we are (median by median)."""

    circuit: str
    rounds: int
    reference_median_s: float
    ours_median_s: float
    reference_min_s: float
    ours_min_s: float
    ratio: float


def post(port: int, body: bytes) -> tuple[int, bytes, float]:
    """Status, body and seconds of one POST /prove on a fresh connection."""
    start = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=REQUEST_DEADLINE_S)
    with contextlib.closing(connection):
        connection.request("POST", "/prove", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = response.read()
    return response.status, answer, time.perf_counter() - start


def for_reference(body: bytes) -> bytes:
    """The request with the name that its circuit had in that version."""
    return re.sub(rb'("circuitType":\s*)"append"', rb'\1"append-with-proofs"', body)


def timed(port: int, body: bytes) -> float:
    """Seconds of one proof; ends the program when it fails."""
    status, answer, seconds = post(port, body)
    if status != 200:
        sys.exit(f"a proof failed with status {status}: {answer[:500]!r}")
    return seconds


def compare(cases: dict[str, str], rounds: int, reference_port: int, our_port: int) -> list[Comparison]:
    """Sends each request to both servers in turn."""
    results = []
    console = Console(stderr=True)
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("interleaved proofs", total=len(cases) * (rounds + WARM_UP_ROUNDS))
        for circuit, name in cases.items():
            body = (REQUESTS / f"{name}.json").read_bytes()
            theirs: list[float] = []
            ours: list[float] = []
            for _ in range(rounds + WARM_UP_ROUNDS):
                theirs.append(timed(reference_port, for_reference(body)))
                ours.append(timed(our_port, body))
                progress.advance(task)
            theirs, ours = theirs[WARM_UP_ROUNDS:], ours[WARM_UP_ROUNDS:]
            medians = statistics.median(theirs), statistics.median(ours)
            results.append(
                Comparison(circuit, rounds, *medians, min(theirs), min(ours), round(medians[0] / medians[1], 3))
            )
    return results


def show(results: list[Comparison]) -> None:
    """Prints the table."""
    table = Table(title="Seconds per proof over HTTP, keys resident; the reference is gnark 0.8 in Go (0.27.0)")
    for heading in ("circuit", "reference", "ours", "times faster", ""):
        table.add_column(heading, justify="left" if heading in ("circuit", "") else "right")
    for r in results:
        bar = "█" * round(8 * r.ratio)
        table.add_row(r.circuit, f"{r.reference_median_s:.3f}", f"{r.ours_median_s:.3f}", f"{r.ratio:.2f}", bar)
    Console().print(table)


def key_of(folder: Path, name: str) -> Path:
    """The key of a circuit under whichever of its names the folder has it; raises KeyUnavailable."""
    circuit = CircuitId.from_key_file(f"{name}.key")
    if circuit is None:
        raise ValueError(f"no circuit is called {name}")
    return find_key(folder, circuit)


def prepare(cases: dict[str, str], keys_dir: Path, folder: Path, *options: str) -> int:
    """Prepares the keys of all cases; gives the bytes of what is mapped later."""
    circuits = [word for name in cases.values() for word in ("--circuit", name)]
    prepare_all(keys_dir, folder, *circuits, *options)
    forms = [form for name in cases.values() for form in prepared.forms_of(key_of(keys_dir, name), folder)]
    return sum(form.stat().st_size for form in forms)


def prepare_all(keys_dir: Path, folder: Path, *options: str) -> None:
    """Prepares all keys of a folder, or those that the options name."""
    command = [OURS, "keys", "prepare", "--keys-dir", str(keys_dir), "--prepared-dir", str(folder), *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def mapped_bytes(folder: Path) -> int:
    """Bytes of the prepared keys of a folder."""
    return sum(path.stat().st_size for path in folder.glob(f"*{prepared.SUFFIX}"))


def add_preparation(parser: argparse.ArgumentParser) -> None:
    """Adds options for `prover keys prepare`, and for where prepared keys are."""
    parser.add_argument("--table-memory", type=int, default=0, metavar="MIB", help="as of `prover keys prepare`")
    parser.add_argument("--no-fold", action="store_true", help="as of `prover keys prepare`: fold no key")
    parser.add_argument(
        "--prepared-dir",
        type=Path,
        metavar="DIR",
        help="keep prepared keys here, and use those of an earlier run, folded as they are (default: a temporary "
        "folder); on two processors making and folding the published ones takes about 3 minutes, batches about 8 more",
    )


@contextlib.contextmanager
def prepared_folders(options: argparse.Namespace) -> Iterator[tuple[Path, Path]]:
    """Folders for prepared keys, of small circuits and of batches, kept where that was asked for."""
    with contextlib.ExitStack() as stack:
        folder = options.prepared_dir or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        yield folder / "small", folder / "batch"


def preparation(options: argparse.Namespace) -> tuple[str, ...]:
    """What `prover keys prepare` is told."""
    return ("--table-memory", str(options.table_memory), *(["--no-fold"] if options.no_fold else []))


def folded_keys(keys_dir: Path, folder: Path) -> dict[str, bool]:
    """The keys that have a prepared form, and whether that is folded."""
    found = {}
    with Engine(threads=1) as engine:
        for key in sorted(keys_dir.glob("*.key")):
            form = prepared.open_existing(engine, key, folder)
            if form is not None:
                with form:
                    found[key.stem] = form.info.fold_bytes > 0
    return found


def told(folded: dict[str, bool], words: Sequence[str]) -> str:
    """How keys were prepared and which are folded, for people."""
    plain = [name for name, is_folded in folded.items() if not is_folded]
    ways = (
        f"keys prepared by `prover keys prepare {' '.join(words)}`: {len(folded) - len(plain)} of {len(folded)} folded"
    )
    return ways + (f", plain {', '.join(plain)}" if plain else "")


def record(results: list[Comparison], facts: Mapping[str, object], history: Path) -> None:
    """Appends the results to the history."""
    keep(history, {**machine_facts(), **facts, "results": [asdict(r) for r in results]})


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="measured rounds per circuit (default 10)")
    parser.add_argument("--history", type=Path, default=HISTORY, help="JSON-lines file to append to")
    add_preparation(parser)
    parser.add_argument("--batch", action="store_true", help="the size-10 batch keys, in place of the small ones")
    options = parser.parse_args()
    cases, mode = (BATCH_CASES, BATCH_MODE) if options.batch else (CASES, MODE)
    keys_dir = reference_batch_keys.batch_keys_dir() if options.batch else reference_fixtures.proving_keys_dir()
    reference = str(reference_fixtures.prover_binary())
    words = preparation(options)
    with prepared_folders(options) as (small, batch):
        folder = batch if options.batch else small
        memory = {"prepared_bytes": prepare(cases, keys_dir, folder, *words)}
        folded = folded_keys(keys_dir, folder)
        variables = {"PROVER_KEYS__PREPARED_DIRECTORY": str(folder)}
        with (
            running(reference, keys_dir, *mode) as theirs,
            running(OURS, keys_dir, variables=variables) as ours,
        ):
            results = compare(cases, options.rounds, theirs.port, ours.port)
            memory |= {"reference_resident_bytes": theirs.resident_bytes, "our_resident_bytes": ours.resident_bytes}
    show(results)
    print(told(folded, words))
    print(", ".join(f"{name} {size / 2**20:.0f} MiB" for name, size in memory.items()))
    record(results, {**memory, "table_mib": options.table_memory, "folded": folded}, options.history)
    slow = [r.circuit for r in results if r.ratio < REQUIRED_RATIO]
    if slow:
        print(f"below {REQUIRED_RATIO} times the reference: {', '.join(slow)}", file=sys.stderr)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
