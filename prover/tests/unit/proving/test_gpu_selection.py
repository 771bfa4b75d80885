"""GPUs that a process opens, and its message without one; a library with a simulated GPU replaces that of CUDA."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from fake_gpu import tiny_key, tiny_task
from prometheus_client import CollectorRegistry

from prover.errors import (
    Cancelled,
    DeviceLost,
    DeviceOutOfMemory,
    DeviceUnavailable,
    KernelMisused,
    ProverError,
    SettingsInvalid,
    WitnessRejected,
)
from prover.kernel import _native
from prover.kernel.cancellation import CancelFlag
from prover.kernel.device import Device, device_count, find_library, installed_library
from prover.kernel.engine import STAGES, Engine, KernelProof, LoadedKey
from prover.observability.metrics import Metrics
from prover.proving.device_selection import open_devices
from prover.proving.devices import Devices
from prover.settings import DeviceSettings, device_settings

FAULTS = "GROTH16_CUDA_HOST_FAULTS"
GPUS = "GROTH16_CUDA_HOST_DEVICES"
TUNING = "GROTH16_CUDA_TUNING"
BUDGET = 256 * 2**20


@pytest.fixture
def key(engine: Engine) -> Iterator[LoadedKey]:
    with tiny_key(engine) as key:
        yield key


def opened(settings: DeviceSettings) -> closing[Devices]:
    return closing(open_devices(settings, Metrics(CollectorRegistry())))


def test_library__absent__is_named_with_what_to_do_about_it(tmp_path: Path) -> None:
    assert installed_library().name == "libgroth16_cuda.so"
    with pytest.raises(DeviceUnavailable, match=r"absent\.so \(--cuda-library, PROVER_CUDA_LIBRARY"):
        find_library(tmp_path / "absent.so")


def test_library__neither_installed_nor_named__is_named_with_the_remedies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prover.kernel.device.installed_library", lambda: tmp_path / "libgroth16_cuda.so")
    with pytest.raises(DeviceUnavailable) as caught:
        find_library()
    for word in (str(tmp_path), "make native-cuda", "--cuda-library", "PROVER_CUDA_LIBRARY", "--device cpu"):
        assert word in caught.value.detail
    with opened(device_settings(device="auto")) as devices:
        assert (devices.choice.selected, devices.choice.cause) == ("cpu", "no_library")
        assert str(tmp_path) in devices.choice.reason
    with pytest.raises(SettingsInvalid, match=r"^--device cuda \(PROVER_DEVICE\): CUDA library .* does not exist"):
        opened(device_settings(device="cuda"))


def test_library__that_is_another_file__is_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.so"
    text.write_text("not a library")
    for path in (text, Path(_native.__file__)):
        with pytest.raises(DeviceUnavailable, match=r"CUDA library"):
            device_count(path)


def test_cpu__asked_for__opens_no_library(tmp_path: Path) -> None:
    with opened(device_settings(cuda_library=tmp_path / "absent.so")) as devices:
        assert devices.choice.selected == "cpu"
        assert not devices.describe()


@pytest.mark.parametrize("policy", ["cuda", "auto"])
def test_gpus__found__are_all_opened_or_those_that_were_named(
    cuda_host_library: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    monkeypatch.setenv(GPUS, "3")
    chosen = {"cuda_library": cuda_host_library, "cuda_memory_gib": BUDGET / 2**30}
    for given, names in (
        ({"device": policy}, ["cuda:0", "cuda:1", "cuda:2"]),
        ({"device": policy, "cuda_devices": "2, 0"}, ["cuda:2", "cuda:0"]),
        ({"device": "cuda:1"}, ["cuda:1"]),
    ):
        with opened(device_settings(**chosen, **given)) as devices:
            assert [report.device for report in devices.describe()] == names
            assert all(report.budget_bytes == BUDGET for report in devices.describe())
            assert devices.choice.selected == "cuda"
            assert "GPU in software" in devices.choice.reason


@pytest.mark.parametrize(
    ("variable", "value", "cause", "words"),
    [
        (GPUS, "0", "no_gpu", "lists no GPU"),
        (FAULTS, "count=unavailable", "no_gpu", "CUDA does not start"),
        (FAULTS, "open=unavailable", "not_usable", "no code for the GPU"),
        (FAULTS, "open=lost", "not_usable", "fault"),
        (FAULTS, "open=out_of_memory", "not_usable", "memory"),
        (TUNING, "window=24", "not_usable", "GROTH16_CUDA_TUNING: window=24 is out of range; it takes 2 to 23"),
    ],
)
def test_gpu__that_cannot_be_used__is_refused_or_left_to_the_cpu(
    cuda_host_library: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, cause: str, words: str
) -> None:
    monkeypatch.setenv(variable, value)
    with opened(device_settings(device="auto", cuda_library=cuda_host_library)) as devices:
        assert (devices.choice.selected, devices.choice.cause) == ("cpu", cause)
        assert words in devices.choice.reason
    with pytest.raises(SettingsInvalid) as caught:
        opened(device_settings(device="cuda", cuda_library=cuda_host_library))
    assert words in caught.value.detail
    assert "--device auto or cpu" in caught.value.detail


def test_gpu__of_an_index_that_is_not_there__is_refused_or_omitted(
    cuda_host_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SettingsInvalid, match=r"^--device cuda:5 .*there is no GPU 5"):
        opened(device_settings(device="cuda:5", cuda_library=cuda_host_library))
    with opened(device_settings(device="auto", cuda_devices="0,7", cuda_library=cuda_host_library)) as devices:
        assert [report.device for report in devices.describe()] == ["cuda:0"]
    monkeypatch.setenv(GPUS, "2")
    named = device_settings(device="cuda", cuda_devices="0,7", cuda_library=cuda_host_library)
    with pytest.raises(SettingsInvalid, match=r"^--device cuda \(PROVER_DEVICE\), --cuda-devices 0,7 .* 2 were found"):
        opened(named)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"device": "gpu"}, "PROVER_DEVICE"),
        ({"device": "cuda:x"}, "PROVER_DEVICE"),
        ({"cuda_devices": "0,x"}, "PROVER_CUDA_DEVICES"),
        ({"cuda_devices": "1,01"}, "PROVER_CUDA_DEVICES"),
        ({"device": "cuda:0", "cuda_devices": "1"}, "PROVER_CUDA_DEVICES"),
        ({"cuda_memory_gib": -1}, "PROVER_CUDA_MEMORY_GIB"),
        ({"cuda_batch": 0}, "PROVER_CUDA_BATCH"),
    ],
)
def test_settings__that_make_no_sense__name_the_variable(values: dict[str, object], named: str) -> None:
    with pytest.raises(SettingsInvalid, match=named):
        device_settings(**values)


def test_settings__empty__are_the_default() -> None:
    settings = device_settings(device="", cuda_devices="", cuda_library="")
    assert (settings.policy, settings.indices, settings.cuda_library) == ("cpu", (), None)


@pytest.mark.parametrize(("batch", "capacity"), [(None, 128), (5, 10), (1, 0)])
def test_gpus__asked_to_make_so_many_proofs_together__make_no_more(
    cuda_host_library: Path, batch: int | None, capacity: int
) -> None:
    settings = device_settings(device="cuda", cuda_library=cuda_host_library, cuda_batch=batch)
    with opened(settings) as devices:
        assert devices.call_capacity == capacity


def proof_of(outcomes: list[KernelProof | ProverError]) -> bytes:
    (outcome,) = outcomes
    assert isinstance(outcome, KernelProof)
    return outcome.points


def test_device__proves__what_holds(cuda_host_library: Path, key: LoadedKey) -> None:
    assignment = tiny_task().assignment
    with Device(cuda_host_library) as device, device.load_key(key) as copy:
        assert device.key_bytes(key) + device.proof_bytes(key) <= device.describe().budget_bytes
        assert device.describe().used_bytes >= device.key_bytes(key)
        assert copy.scratch_bytes_of(1) > 0
        proofs = {proof_of(copy.prove([assignment.inputs])) for _ in range(2)}
    assert len(proofs) == 2
    for proof in proofs:
        key.verifying_key.verify(proof, assignment.public_inputs)


def test_device__closed_before_its_key__ends_with_it(cuda_host_library: Path, key: LoadedKey) -> None:
    device = Device(cuda_host_library)
    copy = device.load_key(key)
    device.close()
    key.close()
    assert len(proof_of(copy.prove([tiny_task().assignment.inputs]))) == 256
    copy.close()


def test_device__proving_many_at_once__makes_a_proof_of_each_and_fails_what_is_false_alone(
    cuda_host_library: Path, key: LoadedKey
) -> None:
    cases = [tiny_task(case).assignment for case in ("z6", "z0", "z6")]
    false = cases[0].inputs[:-1] + b"\1"
    with Device(cuda_host_library) as device, device.load_key(key) as copy:
        assert copy.batch_limit >= 4
        assert 0 < copy.scratch_bytes_of(1) < copy.scratch_bytes_of(4)
        outcomes = copy.prove([cases[0].inputs, cases[1].inputs, false, cases[2].inputs])
        alone = copy.prove([false])
    rejected = outcomes.pop(2)
    assert isinstance(rejected, WitnessRejected)
    assert (type(alone[0]), str(alone[0])) == (WitnessRejected, str(rejected))
    for case, outcome in zip(cases, outcomes, strict=True):
        assert isinstance(outcome, KernelProof)
        key.verifying_key.verify(outcome.points, case.public_inputs)
        assert set(outcome.stage_seconds) == set(STAGES)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("prove=out_of_memory", DeviceOutOfMemory),
        ("prove=lost", DeviceLost),
        ("prove=garbage", DeviceLost),
        ("", Cancelled),
    ],
)
@pytest.mark.parametrize("proofs", [1, 3])
def test_device__failing__reports_it_by_type_for_each(
    cuda_host_library: Path,
    key: LoadedKey,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    error: type[Exception],
    proofs: int,
) -> None:
    cancel = CancelFlag()
    with Device(cuda_host_library) as device, device.load_key(key) as copy:
        monkeypatch.setenv(FAULTS, fault)
        if not fault:
            cancel.raise_flag()
        outcomes = copy.prove([tiny_task().assignment.inputs] * proofs, cancel)
    assert [type(outcome) for outcome in outcomes] == [error] * proofs


def test_inputs__of_different_lengths__are_not_proved_in_one_call(cuda_host_library: Path, key: LoadedKey) -> None:
    inputs = tiny_task().assignment.inputs
    with Device(cuda_host_library) as device, device.load_key(key) as copy:
        for wrong in ([inputs, inputs[:-32]], [inputs[:-1]] * 2):
            with pytest.raises(KernelMisused, match="equal lengths"):
                copy.prove(wrong)
