"""What clients that send bodies as large as allowed, and nothing else, cost the others: latency of ``/health``.

Starts `prover start`, asks `/health` on one connection again and again, first alone, then beside clients that send
every kind of large body in turn. Each client is a process of its own. Prints p50, p99 and the longest wait.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import multiprocessing
import statistics
import sys
import time
from multiprocessing.synchronize import Event
from pathlib import Path

from bench_server import OURS, running

PROVER_ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROVER_ROOT / "scripts"))

import reference_fixtures  # noqa: E402 - found through the line above

LIMIT = 16 * 2**20
PATIENCE_S = 120
PAUSE_S = 0.01


def _append(leaves: bytes) -> bytes:
    numbers = b"".join(
        b'"%s":"0x1",' % name for name in (b"publicInputHash", b"oldRoot", b"newRoot", b"leavesHashchainHash")
    )
    shape = b'{"circuitType":"append","height":32,"batchSize":500,' + numbers
    return shape + b'"oldLeaves":[],"merkleProofs":[],"leaves":[' + leaves + b"]}"


def _inclusion(accounts: bytes) -> bytes:
    return b'{"circuitType":"inclusion","stateTreeHeight":26,"inputCompressedAccounts":[' + accounts + b"]}"


def bodies() -> dict[str, bytes]:
    """Large bodies that are costly in different ways."""
    value = b'"0x%056x",' % 1
    account = b'{"root":"0x1","pathIndex":0,"leaf":"0x1","pathElements":["0x1"]},'
    room = LIMIT - 1000
    return {
        "numbers": _append(value * (room // len(value)) + b'"0x1"'),
        "small numbers": _append(b'"1",' * 262_000 + b'"1"'),
        "one number": _append(b'"0x' + b"f" * room + b'"'),
        "accounts": _inclusion(account * 52_000 + account[:-1]),
        "escapes": b'{"height":1,"circuitType":"' + b"\\u0041" * (room // 6) + b'"}',
        "blanks": b" " * room + _inclusion(b""),
        "nested values": b'{"circuitType":"append","height":[' + b"{}," * 260_000 + b"{}]}",
        "unknown member": b'{"x":[' + b'"%s",' % (b"y" * 60) * 250_000 + b"0]" + _inclusion(b"").replace(b"{", b",", 1),
    }


def send_until(port: int, only: str, first: int, stop: Event) -> None:
    """Send large bodies one after the other, ``first`` of the list first."""
    kinds = [body for name, body in bodies().items() if not only or name == only]
    for body in itertools.islice(itertools.cycle(kinds), first, None):
        if stop.is_set():
            return
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        try:
            connection.request("POST", "/prove", body)
            connection.getresponse().read()
        except OSError:  # the server may refuse before it has read everything
            pass
        finally:
            connection.close()


def health_latencies(port: int, seconds: float) -> list[float]:
    """Seconds that each of many health checks took."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    latencies = []
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        started = time.perf_counter()
        connection.request("GET", "/health")
        connection.getresponse().read()
        latencies.append(time.perf_counter() - started)
        time.sleep(PAUSE_S)
    connection.close()
    return sorted(latencies)


def summary(latencies: list[float]) -> str:
    """Percentiles in milliseconds."""
    p99 = latencies[len(latencies) * 99 // 100]
    shown = (statistics.median(latencies), p99, latencies[-1])
    return "p50 {:7.1f}  p99 {:7.1f}  max {:7.1f} ms".format(*(1000 * value for value in shown))


def beside(port: int, clients: int, only: str, seconds: float) -> list[float]:
    """Latencies while clients send."""
    stop = multiprocessing.Event()
    senders = [
        multiprocessing.Process(target=send_until, args=(port, only, 3 * number, stop)) for number in range(clients)
    ]
    for sender in senders:
        sender.start()
    time.sleep(1)
    latencies = health_latencies(port, seconds)
    stop.set()
    for sender in senders:
        sender.join()
    return latencies


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=3, help="clients that send large bodies (default 3)")
    parser.add_argument("--seconds", type=float, default=20, help="of each measurement (default 20)")
    parser.add_argument("--each", action="store_true", help="measure every kind of body by itself, too")
    options = parser.parse_args()
    with running(OURS, reference_fixtures.proving_keys_dir()) as server:
        print(f"{'alone':16} {summary(health_latencies(server.port, options.seconds))}", flush=True)
        for only in (*(bodies() if options.each else ()), ""):
            latencies = beside(server.port, options.clients, only, options.seconds)
            print(f"{only or 'all kinds':16} {summary(latencies)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
