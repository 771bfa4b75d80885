"""Measurements of a prover on a GPU: no time of a failing one, and the keys that they need."""

from __future__ import annotations

import json
from pathlib import Path

from golden_vectors import vector_named
from gpu_measurements import measured, run


def test_service__whose_gpu_fails__is_no_measurement(
    reference_keys_dir: Path, cuda_host_library: Path, tmp_path: Path
) -> None:
    request = tmp_path / "request.json"
    request.write_bytes(vector_named("prover/v2_inclusion_32_1").body)
    key, fault = reference_keys_dir / "inclusion_32_1.key", {"GROTH16_CUDA_HOST_FAULTS": "prove=lost"}
    status, result, said = measured(cuda_host_library, key, request, "latency", "--proofs", "1", **fault)
    assert (status, result) == (1, None)
    assert "status 503" in said
    assert "GPU 0 failed" in said


def test_circuits__that_are_there__stay_and_what_is_missing_next_to_them_is_made(
    cuda_host_library: Path, tmp_path: Path
) -> None:
    def make() -> str:
        answer = run("keys", tmp_path, "tiny", "inclusion_2_1")
        assert answer.returncode == 0, answer.stderr
        return answer.stderr

    assert "made" in make()
    circuit, request, inputs = (tmp_path / f"inclusion_2_1.{ending}" for ending in ("circuit", "json", "inputs"))
    before = circuit.read_bytes(), request.read_bytes(), inputs.read_bytes()
    assert json.loads(before[1])["circuitType"] == "inclusion"
    assert int(json.loads(before[1])["publicInputHash"], 16) == int.from_bytes(before[2][:32], "big")
    assert {"tiny.key", "tiny.inputs"} <= {path.name for path in tmp_path.iterdir()}
    assert "inclusion_2_1.circuit exists" in make()
    request.unlink()
    make()
    assert (circuit.read_bytes(), request.read_bytes(), inputs.read_bytes()) == before
