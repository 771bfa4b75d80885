"""Processor time of reading a request and of its prechecks, for small and production circuits.

Prints one line per circuit: medians of the calling thread's time over some runs, in milliseconds, and the time of one
hash in a batch for comparison.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

from prover.cli.made_up_requests import MadeUpRequests
from prover.proving.prechecks.satisfiable import first_failure
from prover.proving.request import ProofTask, read_envelope, read_task
from shared.circuit_id import CircuitId, CircuitKind
from shared.poseidon import hash_many
from shared.proof_wire import encode_request

RUNS = 9
CIRCUITS = (
    CircuitId(CircuitKind.INCLUSION, 1, (26,), (1,)),
    CircuitId(CircuitKind.INCLUSION, 2, (32,), (1,)),
    CircuitId(CircuitKind.INCLUSION, 2, (32,), (20,)),
    CircuitId(CircuitKind.NON_INCLUSION, 2, (40,), (1,)),
    CircuitId(CircuitKind.NON_INCLUSION, 2, (40,), (32,)),
    CircuitId(CircuitKind.COMBINED, 2, (32, 40), (4, 4)),
    CircuitId(CircuitKind.BATCH_APPEND, 2, (32,), (10,)),
    CircuitId(CircuitKind.BATCH_APPEND, 2, (32,), (500,)),
    CircuitId(CircuitKind.BATCH_UPDATE, 2, (32,), (500,)),
    CircuitId(CircuitKind.BATCH_ADDRESS_APPEND, 2, (40,), (250,)),
)


def median_ms(work: Callable[[], object]) -> float:
    """Median processor time of the calling thread."""
    times = []
    for _ in range(RUNS):
        started = time.thread_time()
        work()
        times.append(time.thread_time() - started)
    return statistics.median(times) * 1000


def read(body: bytes) -> ProofTask:
    """Do what comes before the prechecks."""
    return read_task(body, read_envelope(body), known=None)


def main() -> None:
    """Measure and print."""
    count = 1000
    pairs = bytes(64) * count
    print(f"one hash of two in a batch: {median_ms(partial(hash_many, pairs, 2)) / count * 1000:.2f} µs")
    print(f"{'circuit':28} {'read':>8} {'check':>8}")
    for circuit in CIRCUITS:
        body = encode_request(MadeUpRequests("bench").make(circuit))
        task = read(body)
        reading = median_ms(partial(read, body))
        checking = median_ms(partial(first_failure, task.circuit, task.assignment))
        print(f"{circuit.name:28} {reading:8.2f} {checking:8.2f}")


if __name__ == "__main__":
    main()
