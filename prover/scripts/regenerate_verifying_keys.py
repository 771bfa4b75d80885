#!/usr/bin/env python3
"""Write published_verifying_keys.json from the published on-chain programs, which `make reference-fixtures` fetches.

    PYTHONPATH=shared/scripts .venv/bin/python prover/scripts/regenerate_verifying_keys.py

With --check nothing is written and a difference ends with status 1.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reference_pages import write_or_check

from prover.kernel.engine import Engine
from prover.keys.catalogue import published_verifying_keys
from prover.keys.catalogue.circuits import PUBLISHED_CIRCUITS
from shared.requests.circuit_id import CircuitId

WORKSPACE = Path(__file__).resolve().parents[2]
OFFSETS = WORKSPACE / "shared/tests/vectors/onchain/vk_offsets.json"
PROGRAMS = WORKSPACE / "keys-cache/reference"
TARGET = Path(published_verifying_keys.__file__).with_suffix(".json")
RELEASES = ("0.28.3", "0.27.0")
"""Releases of the package with the programs; the later one is tried first."""
ORIGIN = (
    "Programs of the npm package @lightprotocol/zk-compression-cli, by release; made by "
    "prover/scripts/regenerate_verifying_keys.py. Compressed, base64. Programs lack beta and delta in G1, which no "
    "verification reads: alpha is in their positions."
)


def keys_of(release: str, engine: Engine) -> Iterator[tuple[str, bytes]]:
    """Yield name in the programs and compressed verifying key of each circuit of a release."""
    programs: dict[str, Any] = json.loads(OFFSETS.read_text())["programs"]
    for name, facts in programs.items():
        version, file = name.split("/")
        if version != release:
            continue
        image = (PROGRAMS / version / "programs" / file).read_bytes()
        if hashlib.sha256(image).hexdigest() != facts["sha256"]:
            raise SystemExit(f"{version}/{file} is not the published file; run `make reference-fixtures`")
        for circuit, position in facts["keys"].items():
            main = image[position["main"] :][:448]
            points = image[position["ic"] :][: 64 * position["n_ic"]]
            yield circuit, compressed(engine, main, points)


def compressed(engine: Engine, main: bytes, points: bytes) -> bytes:
    """Return a verifying key in gnark's compressed format from the parts that programs have.

    ``main`` is alpha in G1 and beta, gamma, delta in G2, ``points`` those of the public inputs, all uncompressed.
    """
    alpha, beta, gamma, delta = main[:64], main[64:192], main[192:320], main[320:448]
    count = (len(points) // 64).to_bytes(4, "big")
    with engine.load_verifying_key(alpha + alpha + beta + gamma + alpha + delta + count + points) as key:
        return key.write()


def names_of(circuit: CircuitId) -> list[str]:
    """Return the names of a circuit in programs: of the later release, of the earlier one, of batches in that."""
    batch = circuit.earlier_key_file.removesuffix(".key")
    names = (circuit.name, circuit.name.partition("_")[2], batch)
    return [name.replace("-", "_") for name in names]


def text() -> str:
    """Return the text of the file."""
    with Engine(1) as engine:
        releases = {release: dict(keys_of(release, engine)) for release in RELEASES}
    keys = {
        circuit.name: {
            release: base64.b64encode(known[name]).decode()
            for release, known in releases.items()
            for name in names_of(circuit)
            if name in known
        }
        for circuit in sorted(PUBLISHED_CIRCUITS, key=lambda circuit: circuit.name)
    }
    return json.dumps({"origin": ORIGIN, "keys": keys}, indent=1) + "\n"


if __name__ == "__main__":
    sys.exit(write_or_check({TARGET: text()}, "prover/scripts/regenerate_verifying_keys.py (--help)", __doc__))
