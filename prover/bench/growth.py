"""Growth: time and memory of one proof by the size of its circuit, with development keys of our own setup."""

from __future__ import annotations

import argparse
import contextlib
import math
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench_report import Report
from key_preparation import Preparation
from prove_alone import measure
from prover_server import OURS

APPEND_SIZES = (2, 10, 50, 100)
COLUMNS = ("constraints", "p50_ms", "cpu_ms", "witness_ms", "proof_mib", "peak_mib")
FITTED = ("p50_ms", "peak_mib")
PROOFS = 40
"""Proofs of inclusion; a batch of n elements is proved an n-th as often, but at least --rounds times."""


@dataclass(frozen=True)
class GrowingCircuit:
    """A circuit for ``elements`` accounts, leaves or addresses."""

    kind: str
    height: int
    elements: int

    @property
    def name(self) -> str:
        """Name as in the tables of the documents."""
        return f"{self.kind} {self.height}/{self.elements}"

    def setup(self, folder: Path) -> Path:
        """Make a key unless the folder has it, and return it."""
        prefix = "" if self.kind == "inclusion" else "batch_"
        key = folder / f"{prefix}{self.kind}_{self.height}_{self.elements}.key"
        if not key.exists():
            size = "compressed-accounts" if self.kind == "inclusion" else "batch-size"
            sizes = (f"--{self.kind}-tree-height", self.height, f"--{self.kind}-{size}", self.elements)
            outputs = ("--output", key, "--output-vkey", key.with_suffix(".vkey"))
            words = [OURS, "setup", "--circuit", self.kind, *sizes, *outputs]
            subprocess.run([*map(str, words)], check=True, stdout=subprocess.DEVNULL)
        return key

    def request(self, folder: Path) -> Path:
        """Write a request from random trees, and return its file."""
        size = "--compressed-accounts" if self.kind == "inclusion" else "--batch-size"
        words = [OURS, "gen-test-params", "--circuit", self.kind, size, str(self.elements), "--seed", "growth"]
        path = folder / f"{self.kind}_{self.elements}.json"
        path.write_bytes(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)
        return path


def measured_growth(
    options: argparse.Namespace, preparation: Preparation, report: Report, cpu_counts: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """Yield the rows of each circuit, and report the exponents that fit: 1 means twice the time for twice the size."""
    circuits = [
        GrowingCircuit("inclusion", 32, 1),
        *(GrowingCircuit("append", 32, size) for size in options.sizes),
        *(GrowingCircuit("address-append", 40, size) for size in options.address_sizes),
    ]
    rows = []
    with contextlib.ExitStack() as stack:
        folder = options.growth_dir or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        for circuit in circuits:
            key, request = circuit.setup(folder), circuit.request(folder)
            prepared = folder / "prepared"
            preparation.prepare_one(key, prepared)
            rounds = max(options.rounds, PROOFS // circuit.elements)
            for cpus in cpu_counts:
                for backend in options.backends:
                    found = measure(key, prepared, request, cpus, rounds, backend.upper(), throughput=False)
                    place = {"circuit": circuit.name, "cpus": cpus, "backend": backend}
                    rows.append(place | {name: round(found[name], 3) for name in COLUMNS})
                    yield rows[-1]
            if not options.growth_dir:
                key.unlink()
                for path in prepared.iterdir():
                    path.unlink()
    for cpus in cpu_counts:
        for backend in options.backends:
            own = [row for row in rows if (row["cpus"], row["backend"]) == (cpus, backend)]
            for name in FITTED if len(own) > 1 else ():
                fitted = exponent([(row["constraints"], row[name]) for row in own])
                title = f"{name} on {cpus} CPUs with {backend} grows as constraints to the power of"
                report.figures[title] = round(fitted, 3)


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """Return b of y = a x^b by least squares of the logarithms."""
    logs = [(math.log(x), math.log(y)) for x, y in points]
    return statistics.linear_regression(*zip(*logs, strict=True)).slope
