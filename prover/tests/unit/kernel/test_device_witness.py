"""Solver of the witnesses of a key on a GPU, which the host simulates."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_gpu import tiny_key, tiny_task

from prover.kernel.device import Device
from prover.kernel.engine import Engine, KernelProof


def test_witness__of_a_small_circuit__is_the_cpus_and_says_why(engine: Engine, cuda_host_library: Path) -> None:
    with tiny_key(engine) as key, Device(cuda_host_library) as device, device.load_key(key) as copy:
        assert "ms on the device" in copy.witness_solver


def test_witness__that_the_gpu_is_configured_for__is_made_there_and_proves(
    engine: Engine, cuda_host_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROTH16_CUDA_WITNESS", "device")
    assignment = tiny_task().assignment
    with tiny_key(engine) as key, Device(cuda_host_library) as device, device.load_key(key) as copy:
        assert copy.witness_solver == "gpu"
        (proof,) = copy.prove([assignment.inputs])
        assert isinstance(proof, KernelProof)
        key.verifying_key.verify(proof.points, assignment.public_inputs)
