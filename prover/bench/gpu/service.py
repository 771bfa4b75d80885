"""A prover on a GPU, measured by a client: from a request's JSON over HTTP to the proof's JSON.

Starts `prover start --device cuda` with one KEY and sends REQUEST (KEY with the ending .json) repeatedly, never in
the same bytes, so that no proof is shared. `latency`: one client, one request after another. `throughput`: as many
clients at once as fill two launches of a small circuit, or --clients. Prints one JSON object; times in milliseconds,
`ms` is the median; `witness_ms` is CPU time of a proof. Exit status 1 when a request was refused, when a proof was not
made by a GPU, or when the last proof is invalid.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench_report import percentile
from prometheus_client.parser import text_string_to_metric_families
from proof_requests import bodies, one_round
from prover_server import OURS, REQUEST_DEADLINE_S, ServerProcess, ask, running

from prover.keys.prepared.prepared_keys import FOLDER, SUFFIX
from prover.proving.request import read_envelope, read_task
from shared.requests.circuit_id import CircuitId

WARM_UPS = 3
CLIENTS_OF_SMALL, CLIENTS_OF_BATCHES = 128, 4


def circuit_of(request: bytes) -> CircuitId:
    """Return the circuit of a request."""
    return read_task(read_envelope(request), None).circuit


def keys_folder(folder: Path, key: Path, circuit: CircuitId) -> Path:
    """Return a folder in which a server finds the key and its prepared keys under the circuit's name."""
    prepared = folder / FOLDER
    prepared.mkdir()
    (folder / circuit.key_file).symlink_to(key.resolve())
    for form in (key.parent / FOLDER).glob(f"{key.name}.*{SUFFIX}"):
        (prepared / (circuit.key_file + form.name.removeprefix(key.name))).symlink_to(form.resolve())
    return folder


@contextlib.contextmanager
def serving(key: Path, circuit: CircuitId, library: Path, waiting: int) -> Iterator[ServerProcess]:
    """Run a server with the key on its GPU."""
    variables = {
        "PROVER_KEYS__PREPARE": "false",
        "PROVER_PROVING__MERKLE_DEADLINE_S": str(REQUEST_DEADLINE_S),
        "PROVER_PROVING__BATCH_DEADLINE_S": str(REQUEST_DEADLINE_S),
    }
    words = ["--device", "cuda", "--cuda-library", str(library.resolve()), "--preload-circuits", circuit.name]
    with (
        tempfile.TemporaryDirectory() as folder,
        running(
            OURS, keys_folder(Path(folder), key, circuit), *words, "--waiting-limit", str(waiting), variables=variables
        ) as server,
    ):
        server.wait_until_ready()
        yield server


class Counters:
    """Counts of a server so far."""

    def __init__(self, server: ServerProcess) -> None:
        text = ask(server.metrics_port, "GET", "/metrics").decode()
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        self._samples = [(sample.name, sample.labels, float(sample.value)) for sample in samples]

    def total(self, name: str, **labels: str) -> float:
        """Return the sum over all samples of a name with these labels."""
        return sum(
            value for own, with_labels, value in self._samples if own == name and labels.items() <= with_labels.items()
        )

    @property
    def by_cpu(self) -> float:
        """Number of proofs that no GPU made."""
        return self.total("prover_device_proofs_total", device="cpu")

    @property
    def by_gpus(self) -> float:
        """Number of proofs that a GPU made."""
        return self.total("prover_device_proofs_total") - self.by_cpu


def verifies(key: Path, request: bytes, proof: bytes) -> bool:
    """Return whether a proof is valid for the request's public input, by `prover verify`."""
    verifying = key.with_suffix(".vkey")
    file = verifying if verifying.exists() else key
    words = [OURS, "verify", "--key", str(file), "--public-input", json.loads(request)["publicInputHash"]]
    answer = subprocess.run(words, input=proof, stdout=subprocess.DEVNULL, check=False)
    return answer.returncode == 0


def measure(
    server: ServerProcess, source: Iterator[bytes], clients: int, proofs: int, seconds: float
) -> dict[str, object]:
    """Warm up, then let the clients send at least ``proofs`` requests for about ``seconds``; return rates and times."""
    warming, latencies, refused = asyncio.run(one_round(server.port, clients, max(clients, WARM_UPS), source))
    count = max(proofs, int(seconds * len(latencies) / warming))
    before = Counters(server)
    took, latencies, refused_later = asyncio.run(one_round(server.port, clients, count, source))
    after = Counters(server)
    made = after.by_gpus - before.by_gpus

    def grown(name: str, **labels: str) -> float:
        return after.total(name, **labels) - before.total(name, **labels)

    return {
        "clients": clients,
        "proofs": len(latencies),
        "refused": refused + refused_later,
        "by_gpu": int(made),
        "ms": round(1e3 * percentile(latencies, 50), 3),
        "p95_ms": round(1e3 * percentile(latencies, 95), 3),
        "witness_ms": round(1e3 * grown("prover_proof_stage_seconds_sum", stage="witness") / max(1.0, made), 3),
        "proofs_per_launch": round(made / max(1.0, grown("prover_device_launch_proofs_count")), 2),
        "proofs_per_second": round(len(latencies) / took, 2),
    }


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("what", choices=("latency", "throughput"))
    parser.add_argument(
        "key", type=Path, metavar="KEY", help="a key file; its prepared keys are in `prepared` next to it"
    )
    parser.add_argument("request", type=Path, nargs="?", metavar="REQUEST", help="default: KEY with the ending .json")
    parser.add_argument("--cuda-library", type=Path, required=True, metavar="FILE", help="libgroth16_cuda.so")
    parser.add_argument("--clients", type=int, help="at once, of `throughput` (default 128, of batches 4)")
    parser.add_argument("--proofs", type=int, default=20, help="to measure at least (default 20)")
    parser.add_argument("--seconds", type=float, default=10.0, help="to measure about, of `throughput` (default 10)")


def run(options: argparse.Namespace) -> int:
    """Measure, print, and return the exit status."""
    request = (options.request or options.key.with_suffix(".json")).read_bytes()
    circuit = circuit_of(request)
    source = bodies(request)
    usual = CLIENTS_OF_BATCHES if circuit.kind.is_batch else CLIENTS_OF_SMALL
    clients = 1 if options.what == "latency" else options.clients or usual
    seconds = 0.0 if options.what == "latency" else options.seconds
    with serving(options.key, circuit, options.cuda_library, 2 * clients) as server:
        (gpu, *_) = json.loads(ask(server.port, "GET", "/version"))["device"]["gpus"]
        found = measure(server, source, clients, options.proofs, seconds)
        proof = ask(server.port, "POST", "/prove", next(source))
        on_cpu = Counters(server).by_cpu
    verified = verifies(options.key, request, proof)
    header = {"name": f"gpu_service_{options.what}", "key": options.key.name, "device": gpu["model"]}
    print(json.dumps({**header, "verified": verified, **found}))
    return 0 if verified and not found["refused"] and not on_cpu and found["by_gpu"] == found["proofs"] else 1
