"""Opening of the GPUs that the policies ``cuda`` and ``auto`` select."""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from prover.errors import DeviceOutOfMemory, DeviceUnavailable, ProverError, SettingsInvalid
from prover.kernel.device import Device, device_count, find_library
from prover.observability.metrics import Metrics
from prover.proving.devices import DeviceChoice, Devices
from prover.proving.gpu.devices import GpuDevices
from prover.proving.gpu.gpu import Gpu
from prover.settings import DeviceSettings
from prover.units import GIB
from shared.process.logs import get_logger

_log = get_logger(__name__)

_ON_CPU = "proofs are made on the CPU"
_REMEDIES = {
    "no_library": "",  # the error contains it
    "no_gpu": "; install or update the driver until nvidia-smi lists a GPU, or use --device auto or cpu",
    "not_usable": "; choose other GPUs (--cuda-devices), or use --device auto or cpu",
}
"""Remedies for each cause of a refusal."""


def open_gpus(settings: DeviceSettings, metrics: Metrics) -> Devices:
    """Open the GPUs that the settings select and log the choice; the caller closes them.

    Under ``cuda`` all selected GPUs must open. Under ``auto`` those that open are used, or the CPU if none does.
    Raises SettingsInvalid when ``cuda`` is not available.
    """
    devices = _select(settings, metrics)
    choice = devices.choice
    note = _log.warning if choice.requested == "auto" and choice.selected == "cpu" else _log.info
    names = [report.device for report in devices.describe()]
    note("device_selected", requested=choice.requested, selected=choice.selected, gpus=names, reason=choice.reason)
    return devices


def _select(settings: DeviceSettings, metrics: Metrics) -> Devices:
    cause = "no_library"
    try:
        library = find_library(settings.cuda_library)
        cause = "no_gpu"
        indices = settings.indices or range(_count_gpus(library))
        cause = "not_usable"
        gpus = _open(settings, library, indices, metrics)
    except (DeviceUnavailable, DeviceOutOfMemory) as error:
        if settings.policy == "cuda":
            raise _refusal(settings, error, cause) from error
        return Devices(metrics, DeviceChoice("auto", "cpu", cause, f"{_ON_CPU}: {error.detail}"))
    cause = "found" if settings.policy == "auto" else "requested"
    models = ", ".join(f"{gpu.name} {gpu.info.name}" for gpu in gpus)
    choice = DeviceChoice(settings.policy, "cuda", cause, f"proofs are made on {models}")
    return GpuDevices(metrics, choice, gpus)


def _refusal(settings: DeviceSettings, error: ProverError, cause: str) -> SettingsInvalid:
    """Return the error for ``cuda`` without a usable GPU; ``cause`` is no_library, no_gpu or not_usable."""
    named = f", --cuda-devices {settings.cuda_devices} (PROVER_CUDA_DEVICES)" if settings.cuda_devices else ""
    return SettingsInvalid(f"--device {settings.device} (PROVER_DEVICE){named}: {error.detail}{_REMEDIES[cause]}")


def _count_gpus(library: Path) -> int:
    """Return the number of GPUs. Raises DeviceUnavailable if there are none."""
    count = device_count(library)
    if not count:
        raise DeviceUnavailable("the CUDA driver lists no GPU, or CUDA_VISIBLE_DEVICES hides them")
    return count


def _open(settings: DeviceSettings, library: Path, indices: Sequence[int], metrics: Metrics) -> list[Gpu]:
    """Open all GPUs or, under ``auto``, those that open. Raises the first error if none does."""
    gpus: list[Gpu] = []
    failures = []
    budget_bytes = int(settings.cuda_memory_gib * GIB)
    with ExitStack() as opened:
        for index in indices:
            try:
                open_device = partial(Device, library, index, budget_bytes)
                gpu = Gpu(index, open_device, metrics, maximum_proofs=settings.cuda_batch)
            except (DeviceUnavailable, DeviceOutOfMemory) as error:
                if settings.policy == "cuda":
                    raise
                _log.warning("gpu_unavailable", device=f"cuda:{index}", error=error.detail)
                failures.append(error)
            else:
                opened.callback(gpu.close)
                gpus.append(gpu)
        if not gpus:
            raise failures[0]
        opened.pop_all()
    return gpus
