"""Keys and inputs for the stages of prover/bench/gpu.sh that make whole proofs.

For each NAME, FOLDER/NAME.key by `prover setup` (a development key), FOLDER/NAME.json, a generated request, and
FOLDER/NAME.inputs: its public, then its secret inputs, 32 bytes each, big-endian. Existing files are not made again, so
a stopped run resumes. Names are tiny (from the test vectors, without a request) or circuit_height_size: inclusion_32_4,
append_32_10, append_32_500, address-append_40_250. The last two have millions of rows: their setup takes minutes and
gigabytes. A folded key in FOLDER/prepared, which `prover keys prepare --fold` writes, is used instead of the key.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from prover_server import OURS

from prover.proving.request import read_envelope, read_task

SMALL = ("tiny", "inclusion_32_4", "append_32_10")
VECTOR = Path(__file__).resolve().parent.parent / "tests/vectors/gnark/tiny.json"


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


def make_key(name: str, key: Path) -> None:
    """Write a development key, with its verifying key next to it."""
    kind, height, size = name.rsplit("_", 2)
    of_setup = {
        "inclusion": ("--inclusion-tree-height", height, "--inclusion-compressed-accounts", size),
        "append": ("--append-tree-height", height, "--append-batch-size", size),
        "update": ("--update-tree-height", height, "--update-batch-size", size),
        "address-append": ("--address-append-tree-height", height, "--address-append-batch-size", size),
    }[kind]
    outputs = ("--force", "--output", str(key), "--output-vkey", str(key.with_suffix(".vkey")))
    subprocess.run([OURS, "setup", "--circuit", kind, *of_setup, *outputs], check=True, stdout=subprocess.DEVNULL)


def make(name: str, folder: Path) -> None:
    """Make a key, its request and its inputs unless they are there."""
    key, request, inputs = (folder / f"{name}.{kind}" for kind in ("key", "json", "inputs"))
    if name == "tiny":
        if not (key.exists() and inputs.exists()):
            make_tiny(key, inputs)
        return
    if not (request.exists() and inputs.exists()):
        make_request(name, request, inputs)
    if key.exists():
        print(f"{key} exists", file=sys.stderr)
        return
    print(f"making {key}", file=sys.stderr)
    started = time.monotonic()
    make_key(name, key)
    print(f"made {key}: {key.stat().st_size} bytes, {time.monotonic() - started:.0f} s", file=sys.stderr)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=SMALL, metavar="NAME", help=f"default: {' '.join(SMALL)}")


def run(options: argparse.Namespace) -> int:
    """Make what is missing."""
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names:
        make(name, options.folder)
    return 0
