"""A prover on a GPU is measured from the request to the proof in JSON; its GPU here is software."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden_vectors import vector_named
from gpu_measurements import measured


@pytest.fixture
def request_file(tmp_path: Path) -> Path:
    path = tmp_path / "request.json"
    path.write_bytes(vector_named("prover/v2_inclusion_32_1").body)
    return path


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
