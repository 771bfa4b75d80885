"""Time from the last byte of a batch's body until its proof could begin, over HTTP, without a key.

A server without the key of a batch answers after its prechecks, and one on which the circuit is disabled after it has
read the request. So these answers are not earlier than the moment at which the proof waits for its key or a permit:
later by about the time in which an empty request is refused (`empty_ms`).
"""

from __future__ import annotations

import contextlib
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prover_server import OURS, running

from prover.cli.random_requests import RandomRequests
from shared.requests.circuit_id import CircuitId, CircuitKind
from shared.requests.proof_wire import encode_request

BATCHES = {
    "append 32/500": CircuitId(CircuitKind.BATCH_APPEND, 2, (32,), (500,)),
    "update 32/500": CircuitId(CircuitKind.BATCH_UPDATE, 2, (32,), (500,)),
    "address-append 40/250": CircuitId(CircuitKind.BATCH_ADDRESS_APPEND, 2, (40,), (250,)),
}
STEPS = {
    "reading": (("--circuit", "inclusion"), b"is disabled on this instance"),
    "reading_and_prechecks": (
        tuple(word for name in ("append-with-proofs", "update", "address-append") for word in ("--circuit", name)),
        b"proving key file not found",
    ),
}
"""Options of the server, and what its answer has."""
UPLOADS = {"at_once": None, "at_1_gbit_s": 125e6}
"""Bytes per second."""
PIECE_BYTES = 1 << 16
WARM_UPS = 3


def measure(cores: int, rounds: int) -> Iterator[dict[str, Any]]:
    """Yield medians in milliseconds for each batch, on ``cores`` CPUs for the server and the client."""
    requests = {name: encode_request(RandomRequests("admission").make(circuit)) for name, circuit in BATCHES.items()}
    found: dict[str, dict[str, float]] = {name: {} for name in requests}
    answer_ms = 0.0
    with _cpus(cores), tempfile.TemporaryDirectory() as keys:
        for step, (options, answer) in STEPS.items():
            with running(OURS, Path(keys), *options) as server:
                for name, body in requests.items():
                    for upload, rate in UPLOADS.items():
                        times = [_answer_ms(server.port, body, rate, answer) for _ in range(WARM_UPS + rounds)]
                        found[name][f"{step}_{upload}_ms"] = round(statistics.median(times[WARM_UPS:]), 2)
                times = [_answer_ms(server.port, b"{}", None, b"circuitType") for _ in range(WARM_UPS + rounds)]
                answer_ms = round(statistics.median(times[WARM_UPS:]), 2)
    for name, figures in found.items():
        yield {"circuit": name, "cpus": cores, "body_bytes": len(requests[name]), **figures, "empty_ms": answer_ms}


@contextlib.contextmanager
def _cpus(count: int) -> Iterator[None]:
    """Restrict this process, and those that it starts, to some CPUs for the block."""
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(own)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


def _answer_ms(port: int, body: bytes, rate: float | None, expected: bytes) -> float:
    """Return the milliseconds from the last byte sent to the first byte of the answer, which must have ``expected``."""
    head = f"POST /prove HTTP/1.1\r\nHost: bench\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(head.encode())
        started = time.perf_counter()
        for at in range(0, len(body), PIECE_BYTES):
            while rate and time.perf_counter() < started + at / rate:
                time.sleep(0)
            connection.sendall(body[at : at + PIECE_BYTES])
        sent = time.perf_counter()
        answer = connection.recv(1 << 16)
        took = time.perf_counter() - sent
        while piece := connection.recv(1 << 16):
            answer += piece
    if expected not in answer:
        raise SystemExit(f"an unexpected answer: {answer[:500]!r}")
    return took * 1e3
