"""Proofs of a circuit so large that windows have more than 15 bits, in sums over wires and over the quotient."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from prover.kernel.engine import Engine
from prover.proving.request import read_envelope, read_task

PROVER = str(Path(sys.executable).with_name("prover"))
LEAVES = 14
"""221,000 constraints and 185,000 bases in each sum over wires; wide windows begin below 180,000 (msm/plan.h)."""
ONE, TWO = (value.to_bytes(32, "big") for value in (1, 2))


@pytest.fixture(scope="module")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    key = tmp_path_factory.mktemp("wide") / "INSECURE_batch_append_32_14.key"
    sizes = ("--append-tree-height", "32", "--append-batch-size", str(LEAVES), "--seed", "wide windows")
    outputs = ("--output", str(key), "--output-vkey", str(key.with_suffix(".vkey")))
    subprocess.run([PROVER, "setup", "--circuit", "append", *sizes, *outputs], check=True)
    return key


def test_prove__wide_windows__any_division_between_threads_gives_the_same_valid_proof(key_file: Path) -> None:
    made_up = [PROVER, "gen-test-params", "--circuit", "append", "--batch-size", str(LEAVES), "--seed", "wide"]
    body = subprocess.run(made_up, check=True, stdout=subprocess.PIPE).stdout
    inputs = read_task(read_envelope(body), None).assignment.inputs
    data = key_file.read_bytes()
    proofs = set()
    for threads in (1, 5):
        with Engine(threads=threads) as engine, engine.load_key(data) as key:
            proof = key.prove(inputs, blinding=(ONE, TWO)).points
            key.verifying_key.verify(proof, inputs[:32])
            proofs.add(proof)
    assert len(proofs) == 1
