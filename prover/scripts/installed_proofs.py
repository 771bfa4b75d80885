"""Prove with each backend that this CPU supports, in the environment that runs this file, and print CPU times as JSON.

installed_proofs.py KEY REQUEST ROUNDS: each proof is verified; {backend: shortest CPU time of a proof in milliseconds}.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from pathlib import Path

from prover.errors import ProverError
from prover.kernel.engine import Backend, Engine
from prover.keys.prepared import prepared_keys
from prover.proving.assignment import Assignment
from prover.proving.request import read_envelope, read_task


def shortest_ms(backend: Backend, key_path: Path, given: Assignment, rounds: int) -> float:
    """Return the shortest CPU time of a proof on one thread. Raises ProverError."""
    with Engine(1, backend) as engine, contextlib.closing(prepared_keys.load_source(engine, key_path)) as key:
        times = []
        for _ in range(rounds):
            start = time.process_time()
            proof = key.prove(given.inputs)
            times.append(time.process_time() - start)
            key.verifying_key.verify(proof.points, given.public_inputs)
    return min(times) * 1e3


def main() -> int:
    """Measure all backends; return the exit status."""
    key, request, rounds = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    given = read_task(read_envelope(request.read_bytes()), None).assignment
    found = {}
    for backend in Backend:
        try:
            Engine(1, backend).close()
        except ProverError:
            continue
        found[backend.name.lower()] = shortest_ms(backend, key, given, rounds)
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
