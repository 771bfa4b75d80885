"""What makes the points of keys: which GPU is opened, and what happens when there is none or it fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from golden_vectors import load
from structlog.testing import capture_logs

from prover.errors import DeviceLost, DeviceOutOfMemory, ProverError, SettingsInvalid, UnsupportedKey
from prover.kernel.device import Device
from prover.kernel.engine import Engine
from prover.kernel.setup import SetupProgress, SetupSecrets, TrustedSetup
from prover.proving.key_device import KeyDevice
from prover.settings import DeviceSettings, device_settings

FAULTS, GPUS = "GROTH16_CUDA_HOST_FAULTS", "GROTH16_CUDA_HOST_DEVICES"
TINY: dict[str, Any] = load("gnark/tiny.json")
KEY = bytes.fromhex(TINY["key_v0_14_hex"])
SECRETS = SetupSecrets(**{name: int(value, 16) for name, value in TINY["toxic_waste"].items()})


def on(device: str, library: Path, **values: Any) -> DeviceSettings:
    return device_settings(device=device, cuda_library=library, **values)


def made(key_device: KeyDevice, engine: Engine) -> tuple[bytes, list[str]]:
    """The golden key, and what was tried to make it."""
    tried = []
    with engine.load_key(KEY) as key:
        system = KEY[key.info.constraint_system_offset :]

    def make(device: Device | None) -> bytes:
        tried.append("cpu" if device is None else f"cuda:{device.describe().index}")
        progress = SetupProgress()
        with TrustedSetup(engine, system, TINY["header"]) as setup:
            file = bytearray(setup.key_bytes)
            setup.run(file, SECRETS, progress, device=device)
        assert progress.permille == 1000
        return bytes(file)

    return key_device.run(make), tried


@pytest.mark.parametrize(
    ("device", "values", "name"),
    [
        ("cuda", {}, "cuda:0"),
        ("auto", {}, "cuda:0"),
        ("cuda:2", {}, "cuda:2"),
        ("cuda", {"cuda_devices": "1,0"}, "cuda:1"),
    ],
)
def test_gpu__found__makes_the_key_of_the_processor(
    engine: Engine,
    cuda_host_library: Path,
    monkeypatch: pytest.MonkeyPatch,
    device: str,
    values: dict[str, str],
    name: str,
) -> None:
    monkeypatch.setenv(GPUS, "3")
    with capture_logs() as logs, KeyDevice(on(device, cuda_host_library, **values)) as key_device:
        assert made(key_device, engine) == (KEY, [name])
        assert made(key_device, engine) == (KEY, [name])
    assert [(entry["chosen"], name in entry["reason"]) for entry in logs if entry["event"] == "device"] == [
        ("cuda", True)
    ]


def test_processor__asked_for__needs_no_library(engine: Engine, tmp_path: Path) -> None:
    with KeyDevice(on("cpu", tmp_path / "absent.so")) as key_device:
        assert made(key_device, engine) == (KEY, ["cpu"])


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        (GPUS, "0", "knows no GPU"),
        (FAULTS, "count=unavailable", "CUDA does not start"),
        (FAULTS, "open=unavailable", "no code for the GPU"),
        (FAULTS, "open=lost", "fault"),
    ],
)
def test_gpu__that_cannot_be_used__is_refused_or_left_to_the_processor(
    engine: Engine,
    cuda_host_library: Path,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    value: str,
    words: str,
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsInvalid, match=r"^--device cuda \(PROVER_DEVICE\): .*--device auto or cpu") as caught:
        KeyDevice(on("cuda", cuda_host_library))
    assert words in caught.value.detail
    with capture_logs() as logs, KeyDevice(on("auto", cuda_host_library)) as key_device:
        assert made(key_device, engine) == (KEY, ["cpu"])
    [told] = [entry for entry in logs if entry["event"] == "device"]
    assert (told["log_level"], told["chosen"]) == ("warning", "cpu")
    assert words in told["reason"]


@pytest.mark.parametrize(
    ("fault", "error", "next_time"),
    [
        ("setup=lost@3", DeviceLost, "cpu"),
        ("setup=wrong@4", DeviceLost, "cpu"),
        ("setup=out_of_memory@3", DeviceOutOfMemory, "cuda:0"),
    ],
)
def test_gpu__that_fails__lets_the_processor_make_the_key_under_auto_alone(
    engine: Engine,
    cuda_host_library: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    error: type[ProverError],
    next_time: str,
) -> None:
    monkeypatch.setenv(FAULTS, fault)
    with KeyDevice(on("cuda", cuda_host_library)) as key_device, pytest.raises(error):
        made(key_device, engine)
    with capture_logs() as logs, KeyDevice(on("auto", cuda_host_library)) as key_device:
        assert made(key_device, engine) == (KEY, ["cuda:0", "cpu"])
        [told] = [entry for entry in logs if entry["event"] == "key_made_on_processor"]
        assert told["log_level"] == "warning"
        assert made(key_device, engine) == (KEY, [next_time])


def test_error__that_is_not_the_gpus__is_raised_as_it_is(cuda_host_library: Path) -> None:
    def refuse(_: Device | None) -> None:
        raise UnsupportedKey("a wire takes part in no constraint")

    with KeyDevice(on("auto", cuda_host_library)) as key_device, pytest.raises(UnsupportedKey):
        key_device.run(refuse)
