"""Whole proofs by the code for AVX-512 IFMA, its two instructions emulated where need be: golden, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from circuit_inputs import circuit_inputs
from golden_vectors import UNBLINDED, load, proof_points
from kernel_library import Kernel, runs

pytestmark = pytest.mark.unchecked

PUBLISHED = "inclusion_32_1"
TINY = load("gnark/tiny.json")


def scalars(values: list[int]) -> bytes:
    return b"".join(value.to_bytes(32, "big") for value in values)


@pytest.fixture(scope="module")
def kernel(testing_library: Path) -> Iterator[Kernel]:
    if not runs(testing_library, "ifma"):
        pytest.skip("the ifma backend does not run on this CPU, nor does its emulation")
    kernel = Kernel(testing_library, "ifma", threads=2)
    yield kernel
    kernel.close()


def test_prove__published_key__equals_the_golden_proof_and_verifies_rerandomised(
    kernel: Kernel, reference_keys_dir: Path
) -> None:
    vector = load(f"gnark/{PUBLISHED}.json")
    inputs = scalars(circuit_inputs(vector["request"]))
    outcome, key = kernel.load_key((reference_keys_dir / f"{PUBLISHED}.key").read_bytes())
    assert key is not None, outcome.message
    assert key.prove_with_blinding(inputs, *UNBLINDED)[1] == proof_points(vector["unblinded"])
    outcome, proof = key.prove(inputs)
    assert outcome.status == "ok", outcome.message
    verifying_key = key.verifying_key
    public = [int.from_bytes(inputs[32 * i : 32 * i + 32], "big") for i in range(verifying_key.public_inputs)]
    assert verifying_key.verify(proof, public).status == "ok"
    key.destroy()


@pytest.mark.parametrize("table_bytes", [0, 2**20])
@pytest.mark.parametrize("fold", [False, True])
def test_prove__tiny_key_prepared_in_all_ways__equals_the_golden_proof(
    kernel: Kernel, table_bytes: int, fold: bool
) -> None:
    outcome, source = kernel.load_key(bytes.fromhex(TINY["key_v0_14_hex"]))
    assert source is not None, outcome.message
    outcome, key = kernel.load_prepared(source.prepared(table_bytes=table_bytes, fold=fold))
    assert key is not None, outcome.message
    for case in TINY["cases"].values():
        inputs = scalars([int(text, 16) for text in (*case["public"], *case["secret"])])
        assert key.prove_with_blinding(inputs, *UNBLINDED)[1] == proof_points(case["unblinded"])
    key.destroy()
    source.destroy()
