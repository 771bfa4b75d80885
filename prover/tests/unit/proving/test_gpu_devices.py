"""Failing GPUs: under auto the CPU computes the proof, under cuda requests are refused."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, cast

import pytest
from fake_gpu import KIND, FakeDevice, FakeGpus, prove_tiny, tiny_key, tiny_task, wrong

from prover.errors import (
    Cancelled,
    DeviceBudgetExceeded,
    DeviceLost,
    DeviceOutOfMemory,
    DeviceUnavailable,
    OutOfMemory,
    ProverError,
    UnsupportedKey,
    WitnessRejected,
)
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine, KernelProof, LoadedKey
from prover.observability.metrics import Metrics
from prover.proving.admission import Admission
from prover.proving.devices import DeviceChoice, Devices
from prover.proving.gpu.devices import GpuDevices
from prover.proving.gpu.gpu import Gpu
from prover.proving.proof_making import Proof


@pytest.fixture
def key(engine: Engine) -> Iterator[LoadedKey]:
    with tiny_key(engine) as key:
        yield key


def devices_of(policy: str, metrics: Metrics, *gpus: Gpu) -> GpuDevices:
    return GpuDevices(metrics, DeviceChoice(policy, "cuda", "found", ""), gpus)


def prove(devices: Devices, key: LoadedKey) -> Proof:
    proof = prove_tiny(devices, key)
    key.verifying_key.verify(proof.points, tiny_task().assignment.public_inputs)
    return proof


def count(metrics: Metrics, name: str, *labels: str) -> float:
    value: float = getattr(metrics, name).labels(*labels)._value.get()
    return value


def test_cpu__chosen__makes_the_proofs(key: LoadedKey) -> None:
    metrics = FakeGpus().metrics
    devices = Devices(metrics)
    assert prove(devices, key).device == "cpu"
    assert devices.problem() is None
    assert count(metrics, "device_info", "cpu", "cpu", "requested") == 1


@pytest.mark.parametrize("policy", ["cuda", "auto"])
def test_gpu__that_works__makes_the_proofs(key: LoadedKey, policy: str) -> None:
    gpus = FakeGpus(FakeDevice())
    devices = devices_of(policy, gpus.metrics, gpus.make(3))
    assert prove(devices, key).device == "cuda:3"


CHAOS: list[Any] = [DeviceOutOfMemory("full"), DeviceLost("gone"), wrong, *[lambda proof: proof] * 6]
FAULTS = [
    (DeviceOutOfMemory("full"), "out_of_memory", False),
    (DeviceLost("gone"), "lost", True),
    (wrong, "wrong_proof", True),
    (DeviceUnavailable("no random bytes"), "unavailable", False),
]


@pytest.mark.parametrize(("fault", "reason", "reopened"), FAULTS, ids=[reason for _, reason, _ in FAULTS])
def test_fault__under_auto__is_made_up_for_by_the_cpu(
    key: LoadedKey, fault: object, reason: str, reopened: bool
) -> None:
    first, second = FakeDevice(), FakeDevice()
    first.proof_faults = [fault]  # type: ignore[list-item]
    gpus = FakeGpus(first, second)
    devices = devices_of("auto", gpus.metrics, gpus.make())
    assert prove(devices, key).device == "cpu"
    assert count(gpus.metrics, "device_faults", "cuda:0", reason) == 1
    assert count(gpus.metrics, "device_fallbacks", reason) == 1
    assert first.closed is reopened
    assert prove(devices, key).device == "cuda:0"
    assert bool(second.copies) is reopened


@pytest.mark.parametrize(("fault", "reason", "reopened"), FAULTS, ids=[reason for _, reason, _ in FAULTS])
def test_fault__under_cuda__is_a_typed_refusal_that_may_be_retried(
    key: LoadedKey, fault: object, reason: str, reopened: bool
) -> None:
    first = FakeDevice()
    first.proof_faults = [fault]  # type: ignore[list-item]
    gpus = FakeGpus(first, FakeDevice())
    devices = devices_of("cuda", gpus.metrics, gpus.make())
    with pytest.raises(DeviceOutOfMemory if reason == "out_of_memory" else DeviceUnavailable) as caught:
        prove(devices, key)
    assert isinstance(caught.value, DeviceLost) is reopened
    assert (caught.value.status, caught.value.retryable) == (503, True)
    assert count(gpus.metrics, "device_fallbacks", reason) == 0
    assert prove(devices, key).device == "cuda:0"


@pytest.mark.parametrize("error", [WitnessRejected("constraint #1 is not satisfied"), OutOfMemory("of the host")])
def test_error__that_is_not_the_gpus__is_raised_as_it_is(key: LoadedKey, error: ProverError) -> None:
    device = FakeDevice()
    device.proof_faults = [error]
    gpus = FakeGpus(device)
    devices = devices_of("auto", gpus.metrics, gpus.make())
    with pytest.raises(type(error)):
        prove(devices, key)
    assert not device.closed


@pytest.mark.parametrize(
    ("device", "error", "reason"),
    [
        (FakeDevice(budget=50), DeviceOutOfMemory, "too_large"),
        (FakeDevice(), UnsupportedKey, "unsupported"),
    ],
    ids=["too_large", "unsupported"],
)
def test_key__that_a_gpu_does_not_take__is_proved_on_the_cpu_or_refused(
    key: LoadedKey, device: FakeDevice, error: type[ProverError], reason: str
) -> None:
    device.load_faults = [UnsupportedKey("not for GPUs")] * 2
    gpus = FakeGpus(device, device)
    with pytest.raises(error):
        prove(devices_of("cuda", gpus.metrics, gpus.make()), key)
    assert prove(devices_of("auto", gpus.metrics, gpus.make()), key).device == "cpu"
    assert count(gpus.metrics, "device_fallbacks", reason) == 1
    assert not device.closed


def test_proofs__at_once__are_divided_between_the_gpus(key: LoadedKey) -> None:
    gpus = FakeGpus(FakeDevice(), FakeDevice())
    devices = devices_of("cuda", gpus.metrics, gpus.make(0), gpus.make(1))
    with ExitStack() as running:
        for _ in range(3):
            running.enter_context(devices.target(key, CancelFlag()))
        leases = [gpu.leases for gpu in devices.gpus]
        assert sorted(leases) == [1, 2]
        assert prove(devices, key).device == f"cuda:{leases.index(1)}"
    assert prove(devices, key).device in ("cuda:0", "cuda:1")


def test_gpu__that_has_the_key__is_preferred_to_idle_ones(engine: Engine, key: LoadedKey) -> None:
    first, second = FakeDevice(), FakeDevice()
    gpus = FakeGpus(first, second)
    devices = devices_of("cuda", gpus.metrics, gpus.make(0), gpus.make(1))
    with tiny_key(engine) as other, devices.target(other, CancelFlag()):
        assert prove(devices, key).device == "cuda:1"
    assert prove(devices, key).device == "cuda:1"
    assert len(first.copies) == 1


def test_key__preloaded__is_on_every_gpu_that_takes_it(key: LoadedKey) -> None:
    first, second, little = FakeDevice(), FakeDevice(), FakeDevice(budget=50)
    first.load_faults = [DeviceLost("gone")]
    gpus = FakeGpus(first, second, little)
    devices = devices_of("cuda", gpus.metrics, *(gpus.make(index) for index in range(3)))
    devices.preload(key)
    assert second.held() == [key]
    assert not little.held()
    assert first.closed


def test_key__preloaded_on_no_gpu__is_refused_unless_the_cpu_takes_it(key: LoadedKey) -> None:
    gpus = FakeGpus(FakeDevice(budget=50))
    gpu = gpus.make()
    devices_of("auto", gpus.metrics, gpu).preload(key)
    with pytest.raises(DeviceBudgetExceeded):
        devices_of("cuda", gpus.metrics, gpu).preload(key)


def test_key__kept_off_the_gpu_by_keys_in_use__is_ready_only_where_the_cpu_takes_over(
    engine: Engine, key: LoadedKey
) -> None:
    gpus = FakeGpus(FakeDevice(budget=150), FakeDevice(budget=150))
    auto, cuda = devices_of("auto", gpus.metrics, gpus.make()), devices_of("cuda", gpus.metrics, gpus.make())
    with tiny_key(engine) as other:
        assert prove(auto, other).device == "cuda:0"
        with auto.target(other, CancelFlag()):
            assert not auto.is_ready(key)
            assert prove(auto, key).device == "cpu"
            assert auto.is_ready(key)
        assert prove(auto, key).device == "cuda:0"
        assert auto.is_ready(key)
        assert not auto.is_ready(other)
        cancel = CancelFlag()
        cancel.raise_flag()
        with cuda.target(other, CancelFlag()):
            with pytest.raises(Cancelled), cuda.target(key, cancel):
                pass
            assert not cuda.is_ready(key)


def test_gpus__of_which_one_failed__continue_with_the_other(key: LoadedKey) -> None:
    gpus = FakeGpus(FakeDevice(), FakeDevice())
    devices = devices_of("cuda", gpus.metrics, gpus.make(0, pause_s=3600), gpus.make(1, pause_s=3600))
    devices.gpus[0].disable("gone")
    assert prove(devices, key).device == "cuda:1"
    assert devices.problem() is None
    devices.gpus[1].disable("gone, too")
    assert devices.problem() == "cuda:0: gone; cuda:1: gone, too"
    with pytest.raises(DeviceUnavailable):
        prove(devices, key)


def test_faults__of_every_kind_under_many_threads__cost_no_proof_and_leave_nothing_behind(engine: Engine) -> None:
    """Two GPUs with room for two of three keys each; every third proof or copy fails in some way."""
    chances = random.Random(1)
    opened: list[FakeDevice] = []

    def open_device() -> FakeDevice:
        device = FakeDevice(budget=220)
        device.proof_faults = [chances.choice(CHAOS) for _ in range(20)]
        device.load_faults = [DeviceOutOfMemory("full")] * chances.randrange(3) + [
            DeviceLost("gone")
        ] * chances.randrange(2)
        opened.append(device)
        return device

    metrics = FakeGpus().metrics
    gpus = [Gpu(index, cast("Any", open_device), metrics, pause_s=0.0) for index in range(2)]
    devices = devices_of("auto", metrics, *gpus)
    with ExitStack() as stack:
        keys = [stack.enter_context(tiny_key(engine)) for _ in range(3)]
        pool = stack.enter_context(ThreadPoolExecutor(6))
        made = [pool.submit(prove, devices, keys[number % 3]) for number in range(120)]
        names = {done.result(120).device for done in made}
        assert "cpu" in names
        assert names & {"cuda:0", "cuda:1"}
        assert [gpu.leases for gpu in gpus] == [0, 0]
        keys[0].close()
        assert all(keys[0] not in device.held() for device in opened)
        devices.close()
    assert len(opened) > 2
    assert all(device.closed and not device.held() for device in opened)


def test_gpu__that_does_not_return__gets_no_more_proofs_and_is_reported(
    key: LoadedKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prover.proving.gpu.driver_calls.STUCK_S", 0.0)
    hung, reached, released = FakeDevice(), threading.Event(), threading.Event()

    def hang(proof: KernelProof) -> KernelProof:
        reached.set()
        assert released.wait(60)
        return proof

    hung.proof_faults = [hang]
    gpus = FakeGpus(hung, FakeDevice())
    first, other = gpus.make(0), gpus.make(1)
    alone, both = devices_of("auto", gpus.metrics, first), devices_of("cuda", gpus.metrics, first, other)
    cancel = CancelFlag()
    with (
        ThreadPoolExecutor(1) as pool,
        alone.target(key, CancelFlag()) as target,
        Admission(1, 0, gpus.metrics).permit(KIND, cancel, target.demand(tiny_task())) as permit,
    ):
        lost = pool.submit(target.prove, permit, tiny_task())
        assert reached.wait(60)
        assert alone.stuck() is None  # it may take its time
        cancel.raise_flag()
        while alone.stuck() is None:
            threading.Event().wait(0.01)
        assert "cuda:0: a call has not returned from the driver" in (alone.stuck() or "")
        assert prove(alone, key).device == "cpu"
        assert prove(both, key).device == "cuda:1"
        released.set()
        lost.result(60)
    assert alone.stuck() is None
    assert prove(alone, key).device == "cuda:0"


def test_gpus__that_all_failed__are_no_problem_where_the_cpu_takes_over(key: LoadedKey) -> None:
    gpus = FakeGpus(FakeDevice())
    devices = devices_of("auto", gpus.metrics, gpus.make(pause_s=3600))
    devices.gpus[0].disable("gone")
    assert devices.problem() is None
    assert prove(devices, key).device == "cpu"
    assert count(gpus.metrics, "device_fallbacks", "unavailable") == 1
