"""Opening of the devices that the settings select."""

from prover.observability.metrics import Metrics
from prover.proving.devices import Devices
from prover.settings import DeviceSettings


def open_devices(settings: DeviceSettings, metrics: Metrics) -> Devices:
    """Open the devices that the settings select; the caller closes them. Raises SettingsInvalid."""
    if settings.policy == "cpu":
        return Devices(metrics)
    from prover.proving.gpu.selection import open_gpus  # most provers have none

    return open_gpus(settings, metrics)
