"""What measures a prover on a GPU, and makes its keys, by the library whose GPU is software."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from golden_vectors import vector_named

BENCH = Path(__file__).resolve().parents[2] / "bench"
SMALL = vector_named("prover/v2_inclusion_32_1")
FAULTS = "GROTH16_CUDA_HOST_FAULTS"


def run(program: str, *words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PROVER_", "COVERAGE"))}
    return subprocess.run(
        [sys.executable, BENCH / program, *words], capture_output=True, text=True, env=kept | variables, timeout=280
    )


@pytest.fixture
def request_file(tmp_path: Path) -> Path:
    path = tmp_path / "request.json"
    path.write_bytes(SMALL.body)
    return path


def measured(library: Path, key: Path, request: Path, *words: str, **variables: str) -> tuple[int, Any, str]:
    answer = run("gpu_service.py", *words, "--cuda-library", library, key, request, **variables)
    return answer.returncode, json.loads(answer.stdout) if answer.stdout else None, answer.stderr


def test_service__on_a_gpu__is_measured_from_request_to_verified_proof(
    reference_keys_dir: Path, cuda_host_library: Path, request_file: Path
) -> None:
    key = reference_keys_dir / "inclusion_32_1.key"
    status, latency, said = measured(cuda_host_library, key, request_file, "latency", "--proofs", "2")
    assert status == 0, said
    assert (latency["name"], latency["key"]) == ("gpu_service_latency", "inclusion_32_1.key")
    assert (latency["clients"], latency["proofs"], latency["by_gpu"], latency["refused"]) == (1, 2, 2, 0)
    assert latency["verified"]
    assert latency["device"] == "GPU in software"
    assert 0 < latency["witness_ms"] < latency["ms"] <= latency["p95_ms"]


def test_service__with_several_clients__is_measured_by_its_rate(
    reference_keys_dir: Path, cuda_host_library: Path, request_file: Path
) -> None:
    words = ("throughput", "--proofs", "4", "--clients", "4", "--seconds", "0")
    key = reference_keys_dir / "inclusion_32_1.key"
    status, found, said = measured(cuda_host_library, key, request_file, *words)
    assert status == 0, said
    assert (found["clients"], found["proofs"], found["by_gpu"], found["refused"]) == (4, 4, 4, 0)
    assert found["proofs_per_second"] > 0
    assert found["proofs_per_launch"] >= 1


def test_service__whose_gpu_fails__is_no_measurement(
    reference_keys_dir: Path, cuda_host_library: Path, request_file: Path
) -> None:
    key = reference_keys_dir / "inclusion_32_1.key"
    lost = {FAULTS: "prove=lost"}
    assert measured(cuda_host_library, key, request_file, "latency", "--proofs", "1", **lost)[0] != 0


def test_keys__that_are_there__stay_and_what_is_missing_beside_them_is_made(
    cuda_host_library: Path, tmp_path: Path
) -> None:
    def make() -> str:
        answer = run("gpu_keys.py", "--cuda-library", cuda_host_library, tmp_path, "tiny", "inclusion_2_1")
        assert answer.returncode == 0, answer.stderr
        return answer.stderr

    assert "making" in make()
    key, request, inputs = (tmp_path / f"inclusion_2_1.{ending}" for ending in ("key", "json", "inputs"))
    before = key.read_bytes(), request.read_bytes(), inputs.read_bytes()
    assert json.loads(before[1])["circuitType"] == "inclusion"
    assert int(json.loads(before[1])["publicInputHash"], 16) == int.from_bytes(before[2][:32], "big")
    assert {"tiny.key", "tiny.inputs", "inclusion_2_1.vkey"} <= {path.name for path in tmp_path.iterdir()}
    assert "inclusion_2_1.key is there" in make()
    request.unlink()
    make()
    assert (key.read_bytes(), request.read_bytes(), inputs.read_bytes()) == before
