"""The server of the reference prover over a folder of keys, and requests that it proves."""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from golden_vectors import RequestVector
from independent_groth16 import IndependentKey, holds
from local_processes import free_port

MERKLE_VECTORS = [
    "prover/v1_inclusion_26_2",
    "prover/v1_non-inclusion_26_2",
    "prover/v1_combined_26_26_1_1",
    "prover/v2_inclusion_32_2",
    "prover/v2_non-inclusion_40_1",
    "prover/v2_combined_32_40_1_2",
]
BATCH_VECTORS = {
    "prover/batch_append_32_10": ("append-with-proofs_32_10.key", "append-with-proofs-test"),
    "prover/batch_update_32_10": ("update_32_10.key", "update-test"),
    "prover/batch_address-append_40_10": ("address-append_40_10.key", "address-append-test"),
}
"""Key files and circuit names of the reference."""

LOADING_SECONDS = 300
PROVING_SECONDS = 300


def fill_up(folder: Path, names: Iterable[str], stand_in: Path) -> None:
    """Copy a small key to every name that the folder lacks: the reference loads all of a run mode or none."""
    for name in names:
        if not (folder / name).exists():
            (folder / name).symlink_to(stand_in)


@contextlib.contextmanager
def reference_server(binary: Path, keys_dir: Path, log: Path, *arguments: str) -> Iterator[int]:
    """The reference's server over a folder of keys; yields its port once all are loaded."""
    port, metrics_port = free_port(), free_port()
    addresses = ("--prover-address", f"127.0.0.1:{port}", "--metrics-address", f"127.0.0.1:{metrics_port}")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(binary), "start", "--keys-dir", f"{keys_dir}/", *addresses, *arguments],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + LOADING_SECONDS
        while not answers(port):
            assert process.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < deadline, "the reference did not load its keys in time"
            time.sleep(0.2)
        yield port
    finally:
        process.terminate()
        process.wait(30)


def answers(port: int) -> bool:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except OSError:
            return False


def post(port: int, body: str) -> tuple[int, bytes]:
    """Return the answer to POST /prove."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PROVING_SECONDS)) as connection:
        connection.request("POST", "/prove", body)
        response = connection.getresponse()
        return response.status, response.read()


def assert_proves(port: int, vector: RequestVector, key: IndependentKey) -> None:
    request = vector.request
    if request["circuitType"] == "append":
        request["circuitType"] = "append-with-proofs"  # its name in that version
    deadline = time.monotonic() + PROVING_SECONDS
    status, body = post(port, json.dumps(request))
    while b"proof_timeout" in body and time.monotonic() < deadline:
        time.sleep(5)  # a busy machine, and the ten seconds that the reference gives small circuits
        status, body = post(port, json.dumps(request))
    assert status == 200, body
    assert holds(key, json.loads(body), vector.public_inputs)
