"""Circuits and inputs from which the stages of prover/bench/gpu.sh make keys and proofs without Python.

For each NAME, FOLDER/NAME.circuit, from which gpu_setup makes a development key (gpu/circuits.py), FOLDER/NAME.json, a
generated request, and FOLDER/NAME.inputs: its public, then its secret inputs, 32 bytes each, big-endian. Existing files
are not made again. Names are tiny (a key from the test vectors, without a request) or circuit_height_size:
inclusion_32_4, append_32_10, append_32_500. The last has millions of rows: it takes half a minute and gigabytes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from gpu.circuits import write_circuit
from prover_server import OURS

from prover.proving.request import read_envelope, read_task
from shared.requests.circuit_id import CircuitId, CircuitKind

NAMES = ("tiny", "inclusion_32_4", "append_32_10", "append_32_500")
KINDS = {
    "inclusion": CircuitKind.INCLUSION,
    "append": CircuitKind.BATCH_APPEND,
    "update": CircuitKind.BATCH_UPDATE,
    "address-append": CircuitKind.BATCH_ADDRESS_APPEND,
}
VECTOR = Path(__file__).resolve().parents[2] / "tests/vectors/gnark/tiny.json"


def write(path: Path, data: bytes) -> None:
    """Write a file that appears when it is complete."""
    part = path.with_suffix(path.suffix + ".part")
    part.write_bytes(data)
    part.rename(path)


def make_tiny(key: Path, inputs: Path) -> None:
    """Write the key and the first case of the test vectors."""
    vector = json.loads(VECTOR.read_text())
    case = next(iter(vector["cases"].values()))
    write(inputs, b"".join(int(text, 16).to_bytes(32, "big") for text in case["public"] + case["secret"]))
    write(key, bytes.fromhex(vector["key_v0_14_hex"]))


def make_request(name: str, request: Path, inputs: Path) -> None:
    """Write a generated request, always the same, and the inputs of the circuit for it."""
    kind, height, size = name.rsplit("_", 2)
    count = "--compressed-accounts" if kind == "inclusion" else "--batch-size"
    tree = "--address-tree-height" if kind == "address-append" else "--tree-height"
    made_up = [OURS, "gen-test-params", "--circuit", kind, tree, height, count, size, "--seed", "gpu"]
    body = subprocess.run(made_up, check=True, stdout=subprocess.PIPE).stdout
    write(inputs, read_task(read_envelope(body), None).assignment.inputs)
    write(request, body)


def make(name: str, folder: Path) -> None:
    """Make a circuit, its request and its inputs, or the tiny key, unless they are there."""
    key, circuit, request, inputs = (folder / f"{name}.{kind}" for kind in ("key", "circuit", "json", "inputs"))
    if name == "tiny":
        if not (key.exists() and inputs.exists()):
            make_tiny(key, inputs)
        return
    if not (request.exists() and inputs.exists()):
        make_request(name, request, inputs)
    if circuit.exists():
        print(f"{circuit} exists", file=sys.stderr)
        return
    kind, height, size = name.rsplit("_", 2)
    started = time.monotonic()
    write_circuit(CircuitId(KINDS[kind], 2, (int(height),), (int(size),)), circuit)
    print(f"made {circuit}: {circuit.stat().st_size} bytes, {time.monotonic() - started:.0f} s", file=sys.stderr)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=NAMES, metavar="NAME", help=f"default: {' '.join(NAMES)}")


def run(options: argparse.Namespace) -> int:
    """Make what is missing."""
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names:
        make(name, options.folder)
    return 0
