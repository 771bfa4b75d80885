"""What makes the points of keys: the first GPU that is meant, or the processor, which ``auto`` falls back to."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from prover.errors import DeviceLost, DeviceOutOfMemory, DeviceUnavailable
from prover.kernel.device import Device, find_library
from prover.kernel.handles import Owner
from prover.proving.device_choice import GIB, count_gpus, refusal
from prover.settings import DeviceSettings
from shared.logs import get_logger

Result = TypeVar("Result")

_log = get_logger(__name__)


class KeyDevice(Owner):
    """A GPU for making keys, or none. Close it, or use it as a context manager."""

    def __init__(self, settings: DeviceSettings) -> None:
        """Open the first GPU of the settings and say what was chosen; the processor needs no GPU.

        Raises SettingsInvalid when ``cuda`` cannot be had.
        """
        self._falls_back = settings.policy == "auto"
        self._device = None if settings.policy == "cpu" else _opened(settings)

    def run(self, make: Callable[[Device | None], Result]) -> Result:
        """Call ``make`` with the GPU, or with None for the processor, which takes over under ``auto``.

        A GPU that was lost is not used again. Raises what ``make`` does.
        """
        if self._device is not None:
            try:
                return make(self._device)
            except (DeviceUnavailable, DeviceOutOfMemory) as error:
                if not self._falls_back:
                    raise
                _log.warning("key_made_on_processor", error=error.detail)
                if isinstance(error, DeviceLost):
                    self.close()
        return make(None)

    def close(self) -> None:
        """Close the GPU."""
        device, self._device = self._device, None
        if device is not None:
            device.close()


def _opened(settings: DeviceSettings) -> Device | None:
    """Open the first GPU; None if there is none and the processor may do."""
    cause = "no_library"
    try:
        library = find_library(settings.cuda_library)
        cause = "no_gpu"
        index = (settings.indices or range(count_gpus(library)))[0]
        cause = "not_usable"
        return _open(settings, library, index)
    except (DeviceUnavailable, DeviceOutOfMemory) as error:
        if settings.policy == "cuda":
            raise refusal(settings, error, cause) from error
        _log.warning("device", asked="auto", chosen="cpu", reason=f"keys are made on the processor: {error.detail}")
        return None


def _open(settings: DeviceSettings, library: Path, index: int) -> Device:
    device = Device(library, index, int(settings.cuda_memory_gib * GIB))
    try:
        model = device.describe().name
    except BaseException:
        device.close()
        raise
    _log.info(
        "device", asked=settings.policy, chosen="cuda", reason=f"the points of keys are made on cuda:{index} {model}"
    )
    return device
