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
from dataclasses import asdict, dataclass
from pathlib import Path

from prover.kernel.engine import STAGES, Engine, LoadedKey
from prover.keys.prepared import prepared_keys
from prover.proving.request import read_envelope, read_task

WARM_UPS = 3
LOADS = 5


@dataclass(frozen=True)
class Alone:
    """Measurements of one process; times in seconds, medians unless named otherwise."""

    cores: int
    constraints: int
    domain_size: int
    points_a: int
    points_b: int
    points_k: int
    points_z: int
    p50: float
    p95: float
    processor: float
    stages: dict[str, float]
    proofs_per_s: float
    load_cold: float
    load_warm: float
    loaded_bytes: int
    scratch_bytes: int
    peak_resident_bytes: int

    @property
    def witness(self) -> float:
        """Return the wall-clock seconds of the witness."""
        return self.stages["witness"]


def measure(key: Path, folder: Path, request: Path, cores: int, rounds: int) -> Alone:
    """Measure in a new process; ``folder`` has the prepared file of ``key``."""
    words = [sys.executable, __file__, str(key), str(folder), str(request), str(cores), str(rounds)]
    answer = subprocess.run(words, check=True, stdout=subprocess.PIPE)
    return Alone(**json.loads(answer.stdout))


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _status_bytes(name: str) -> int:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status[name].split()[0]) * 1024


def _loads(engine: Engine, key: Path, folder: Path) -> tuple[float, float]:
    """Return the seconds of a load with the file dropped from the page cache, and the median of warm loads."""

    def load() -> None:
        prepared_keys.load(engine, key, folder).close()

    with prepared_keys.path_of(engine, key, folder).open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return _timed(load), statistics.median(_timed(load) for _ in range(LOADS))


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


def prove_here(key_path: Path, folder: Path, request: Path, cores: int, rounds: int) -> Alone:
    """Measure in this process."""
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:cores]))
    body = request.read_bytes()
    inputs = read_task(read_envelope(body), None).assignment.inputs
    before = _status_bytes("VmRSS")
    with Engine(cores) as engine:
        cold, warm = _loads(engine, key_path, folder)
        key = prepared_keys.load(engine, key_path, folder)
        loaded = _status_bytes("VmRSS") - before
        for _ in range(min(WARM_UPS, rounds)):
            key.prove(inputs)
        seconds, processor, stages = [], [], []
        for _ in range(rounds):
            wall, cpu = time.perf_counter(), time.process_time()
            stages.append(key.prove(inputs).stage_seconds)
            seconds.append(time.perf_counter() - wall)
            processor.append(time.process_time() - cpu)
        info = key.info
        found = Alone(
            cores=cores,
            constraints=info.constraints,
            domain_size=info.domain_size,
            points_a=info.points_a,
            points_b=info.points_b,
            points_k=info.points_k,
            points_z=info.points_z,
            p50=statistics.median(seconds),
            p95=sorted(seconds)[max(0, -(-95 * rounds // 100) - 1)],
            processor=statistics.median(processor),
            stages={stage: statistics.median(one[stage] for one in stages) for stage in STAGES},
            proofs_per_s=_throughput(key, inputs, cores, max(2, rounds // 2)),
            load_cold=cold,
            load_warm=warm,
            loaded_bytes=loaded,
            scratch_bytes=key.scratch_bytes,
            peak_resident_bytes=_status_bytes("VmHWM"),
        )
        key.close()
    return found


if __name__ == "__main__":
    _key, _folder, _request, _cores, _rounds = sys.argv[1:]
    print(json.dumps(asdict(prove_here(Path(_key), Path(_folder), Path(_request), int(_cores), int(_rounds)))))
