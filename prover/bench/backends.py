"""Times of one proof on one thread by each backend that this CPU supports, alternately: CPU time and stages, minima.

Keys are read from their source, so each backend has the points in its own representation. Prints a table, and appends a
line of JSON with machine and commit to a history. Takes two minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import reference_fixtures
from key_preparation import key_of
from machine import keep, machine_facts
from proof_requests import CASES, REQUESTS
from rich.console import Console
from rich.progress import track
from rich.table import Table

from prover.errors import ProverError
from prover.kernel.engine import STAGES, Backend, Engine, LoadedKey
from prover.keys.prepared import prepared_keys
from prover.proving.request import read_envelope, read_task

HISTORY = Path(__file__).with_name("backends_history.jsonl")

Times = dict[str, float]


def backends(names: Sequence[str]) -> list[Backend]:
    """Return the named backends that this CPU supports; all of those without names."""
    found: list[Backend] = []
    for backend in Backend:
        with contextlib.suppress(ProverError), Engine(1, backend) as engine:
            if backend is not Backend.AUTO and engine.backend in (names or [engine.backend]):
                found.append(backend)
    return found


def prove(key: LoadedKey, inputs: bytes) -> Times:
    """Return the CPU time of a proof in milliseconds as "all", and the wall clock of its stages."""
    start = time.thread_time()
    proof = key.prove(inputs)
    return {"all": (time.thread_time() - start) * 1e3} | {name: s * 1e3 for name, s in proof.stage_seconds.items()}


def measure(key_path: Path, request: Path, chosen: Sequence[Backend], rounds: int) -> dict[str, Times]:
    """Return the minimum times of ``rounds`` proofs by each backend."""
    body = request.read_bytes()
    inputs = read_task(read_envelope(body), None).assignment.inputs
    shortest: dict[str, Times] = {}
    with contextlib.ExitStack() as stack:
        engines = [stack.enter_context(Engine(1, backend)) for backend in chosen]
        loads = (contextlib.closing(prepared_keys.load_source(engine, key_path)) for engine in engines)
        keys = [stack.enter_context(load) for load in loads]
        for _ in track(range(rounds), request.stem):
            for engine, key in zip(engines, keys, strict=True):
                times = prove(key, inputs)
                known = shortest.setdefault(engine.backend, times)
                shortest[engine.backend] = {name: min(known[name], value) for name, value in times.items()}
    return shortest


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("backends", nargs="*", help="adx, avx2, … (default: all that this CPU supports)")
    parser.add_argument("--rounds", type=int, default=30, help="proofs by each backend (default 30)")
    parser.add_argument("--history", type=Path, default=HISTORY, metavar="FILE", help="JSON-lines file to append to")


def main(options: argparse.Namespace) -> int:
    """Measure, print, and return the exit status."""
    facts = machine_facts()
    chosen = backends(options.backends)
    table = Table("circuit", "backend", "all, ms", *STAGES, title="One proof on one thread, minima")
    results = []
    for circuit, name in CASES.items():
        key = key_of(reference_fixtures.proving_keys_dir(), name)
        found = measure(key, REQUESTS / f"{name}.json", chosen, options.rounds)
        for backend, times in found.items():
            results.append({"circuit": circuit, "backend": backend, "ms": times})
            table.add_row(circuit, backend, *(f"{times[part]:.2f}" for part in ("all", *STAGES)))
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    keep(options.history, {**facts, "rounds": options.rounds, "results": results})
    return 0
