"""Proofs of one circuit in their own process, pinned to a number of CPUs."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from process_figures import MIB, ProcessFigures

from prover.kernel.engine import STAGES, Backend, Engine, LoadedKey
from prover.keys.prepared import prepared_keys
from prover.proving.request import read_envelope, read_task

WARM_UPS = 3
LONG_PROOF_MS = 1000
"""A proof that warms up enough alone."""
LOADS = 5

Figures = dict[str, float]
"""Measurements of one process: milliseconds, MiB, proofs per second; medians unless named otherwise."""


def measure(
    key: Path,
    prepared: Path | None,
    request: Path,
    cores: int,
    rounds: int,
    backend: str = "AUTO",
    *,
    throughput: bool = True,
) -> Figures:
    """Measure in a new process; ``prepared`` has the prepared file of ``key``, None reads the source."""
    words = [key, prepared or "", request, cores, rounds, backend, "throughput" if throughput else ""]
    paths = os.pathsep.join(sys.path)
    answer = subprocess.run(
        [sys.executable, __file__, *map(str, words)],
        check=True,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": paths},
    )
    figures: Figures = json.loads(answer.stdout)
    return figures


def milliseconds(work: Callable[[], object]) -> float:
    """Return the time of a call."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def _loads(engine: Engine, key: Path, folder: Path) -> Figures:
    """Return the time of a load with the file dropped from the page cache, and the median of warm loads."""

    def load() -> None:
        prepared_keys.load(engine, key, folder).close()

    with prepared_keys.path_of(engine, key, folder).open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    cold = milliseconds(load)
    return {"load_cold_ms": cold, "load_warm_ms": statistics.median(milliseconds(load) for _ in range(LOADS))}


def _throughput(key: LoadedKey, inputs: bytes, callers: int, rounds: int) -> float:
    """Return the proofs per second of one caller per CPU, each with ``rounds`` proofs one after the other."""

    def calls() -> None:
        for _ in range(rounds):
            key.prove(inputs)

    with ThreadPoolExecutor(callers) as pool:
        start = time.perf_counter()
        for done in [pool.submit(calls) for _ in range(callers)]:
            done.result()
        return callers * rounds / (time.perf_counter() - start)


def prove_here(
    key_path: Path, folder: Path | None, request: Path, cores: int, rounds: int, backend: Backend, *, throughput: bool
) -> Figures:
    """Measure in this process."""
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:cores]))
    body = request.read_bytes()
    inputs = read_task(read_envelope(body), None).assignment.inputs
    with Engine(cores, backend) as engine:
        loads = {} if folder is None else _loads(engine, key_path, folder)
        if folder is None:
            key = prepared_keys.load_source(engine, key_path)
        else:
            key = prepared_keys.load(engine, key_path, folder)
        for _ in range(min(WARM_UPS, rounds)):
            if milliseconds(lambda: key.prove(inputs)) > LONG_PROOF_MS:
                break
        seconds, processor, stages = [], [], []
        for _ in range(rounds):
            wall, cpu = time.perf_counter(), time.process_time()
            stages.append(key.prove(inputs).stage_seconds)
            seconds.append((time.perf_counter() - wall) * 1e3)
            processor.append((time.process_time() - cpu) * 1e3)
        found = {
            "constraints": key.info.constraints,
            "p50_ms": statistics.median(seconds),
            "p95_ms": sorted(seconds)[max(0, -(-95 * rounds // 100) - 1)],
            "cpu_ms": statistics.median(processor),
            "fastest_cpu_ms": min(processor),
            **{f"{stage}_ms": statistics.median(one[stage] for one in stages) * 1e3 for stage in STAGES},
            **({"proofs_per_s": _throughput(key, inputs, cores, max(2, rounds // 2))} if throughput else {}),
            **loads,
            "proof_mib": key.scratch_bytes / MIB,
            "peak_mib": ProcessFigures(os.getpid()).peak_resident_bytes / MIB,
        }
        key.close()
    return found


if __name__ == "__main__":
    _key, _folder, _request, _cores, _rounds, _backend, _words = sys.argv[1:]
    _prepared, _counts = Path(_folder) if _folder else None, (int(_cores), int(_rounds))
    _found = prove_here(Path(_key), _prepared, Path(_request), *_counts, Backend[_backend], throughput=bool(_words))
    print(json.dumps(_found))
