"""Failure of a GPU in the middle of proofs that it makes together."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from fake_gpu import FakeDevice, tiny_key, tiny_task, wrong
from held_gpu import HeldGpu, batches

from prover.errors import DeviceLost, DeviceOutOfMemory, DeviceUnavailable, ProverError
from prover.kernel.engine import Engine, LoadedKey
from prover.proving.devices import DeviceChoice
from prover.proving.gpu.devices import GpuDevices
from prover.proving.gpu.launches import LAUNCHES_AT_ONCE
from prover.proving.proof_making import Proof

TOGETHER = 3
FAULTS: list[tuple[list[Any], str, int]] = [
    ([DeviceOutOfMemory("full")], "out_of_memory", TOGETHER),
    ([DeviceLost("gone")], "lost", TOGETHER),
    ([wrong], "wrong_proof", 1),
    ([DeviceUnavailable("no random bytes")], "unavailable", TOGETHER),
]
"""What happens to a launch of TOGETHER proofs, its label, and to how many of them."""
NAMES = [reason for _, reason, _ in FAULTS]


@pytest.fixture
def key(engine: Engine) -> Iterator[LoadedKey]:
    with tiny_key(engine) as key:
        yield key


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Threads of requests."""
    with ThreadPoolExecutor(16) as pool:
        yield pool


def faulty(pool: ThreadPoolExecutor, faults: list[Any]) -> HeldGpu:
    """Return a GPU that fails in its first launch of several proofs, and another for when it is opened again."""
    device = batches()
    device.proof_faults = [lambda proof: proof] * LAUNCHES_AT_ONCE + faults
    return HeldGpu(pool, device, FakeDevice())


def ask(held: HeldGpu, devices: GpuDevices, key: LoadedKey) -> list[Future[Proof]]:
    """Ask for proofs that are made alone, then for those that are made together; let all calls end."""
    asked = [held.submit_by(devices, key) for _ in range(LAUNCHES_AT_ONCE + TOGETHER)]
    held.end_all()
    return asked


def count(held: HeldGpu, name: str, *labels: str) -> float:
    value: float = getattr(held.metrics, name).labels(*labels)._value.get()
    return value


@pytest.mark.parametrize(("faults", "reason", "failed"), FAULTS, ids=NAMES)
def test_fault_of_a_launch__under_auto__is_made_up_for_by_the_cpu(
    key: LoadedKey, pool: ThreadPoolExecutor, faults: list[Any], reason: str, failed: int
) -> None:
    held = faulty(pool, faults)
    devices = GpuDevices(held.metrics, DeviceChoice("auto", "cuda", "found", ""), [held.gpu])
    proofs = [one.result(120) for one in ask(held, devices, key)]
    for proof in proofs:
        key.verifying_key.verify(proof.points, tiny_task().assignment.public_inputs)
    assert [proof.device for proof in proofs].count("cpu") == failed
    assert {proof.device for proof in proofs[:LAUNCHES_AT_ONCE]} == {"cuda:0"}
    assert count(held, "device_faults", "cuda:0", reason) == failed
    assert count(held, "device_fallbacks", reason) == failed
    assert held.device.closed is (reason in ("lost", "wrong_proof"))


@pytest.mark.parametrize(("faults", "reason", "failed"), FAULTS, ids=NAMES)
def test_fault_of_a_launch__under_cuda__is_a_typed_refusal_of_every_proof_it_cost(
    key: LoadedKey, pool: ThreadPoolExecutor, faults: list[Any], reason: str, failed: int
) -> None:
    held = faulty(pool, faults)
    devices = GpuDevices(held.metrics, DeviceChoice("cuda", "cuda", "requested", ""), [held.gpu])
    errors = [one.exception(120) for one in ask(held, devices, key)]
    refusals = [error for error in errors if error is not None]
    assert len(refusals) == failed
    for error in refusals:
        assert isinstance(error, ProverError)
        assert (error.status, error.retryable) == (503, True)
        assert isinstance(error, DeviceOutOfMemory if reason == "out_of_memory" else DeviceUnavailable)
        assert isinstance(error, DeviceLost) is (reason in ("lost", "wrong_proof"))
    assert count(held, "device_faults", "cuda:0", reason) == failed
