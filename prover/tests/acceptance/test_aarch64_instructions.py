"""Instructions of a proof on aarch64, counted by qemu: those of the backend in assembly next to the compiled C code."""

import subprocess
from pathlib import Path

import pytest
from aarch64 import SERVICE, Emulated, counting_plugin
from golden_vectors import request_vectors

from prover.proving.request import read_envelope, read_task

RELEASE = Emulated(SERVICE / "build/aarch64-o3/prove_file")
KEY = SERVICE.parent / "keys-cache/reference/0.27.0/proving-keys/inclusion_32_1.key"
LARGEST_PART = 0.7
"""Measured: 0.67 with gcc 12 (prover/docs/explanation/measurements.md, "aarch64")."""


def test_proof_of_inclusion__in_assembly__takes_two_thirds_of_the_compiled_instructions(tmp_path: Path) -> None:
    built = subprocess.run([str(SERVICE / "scripts/native"), "aarch64", "3"], cwd=SERVICE.parent, check=False)
    if built.returncode != 0 or RELEASE.missing:
        pytest.skip(RELEASE.missing or "no compiler for aarch64")
    vector = next(each for each in request_vectors() if each.name == "prover/v2_inclusion_32_1")
    inputs = tmp_path / "inputs"
    inputs.write_bytes(bytes(read_task(read_envelope(vector.body), known=None).assignment.inputs))
    plugin = counting_plugin(tmp_path)
    counts = {name: RELEASE.instructions(plugin, KEY, inputs, name) for name in ("portable", "aarch64")}
    print(counts)
    assert counts["aarch64"] < LARGEST_PART * counts["portable"]
