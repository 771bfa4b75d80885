"""Options for the device of every command that makes proofs."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from prover.settings import DeviceSettings, device_settings

Function = TypeVar("Function", bound=Callable[..., Any])

_SETTINGS = {
    "device": "device",
    "cuda_devices": "cuda_devices",
    "cuda_library": "cuda_library",
    "cuda_memory_gb": "cuda_memory_gib",
    "cuda_batch": "cuda_batch",
}
"""Settings by the names of the options."""


_OPTIONS = (
    click.option(
        "--device",
        metavar="cpu|cuda|cuda:N|auto",
        envvar="PROVER_DEVICE",
        show_envvar=True,
        show_default="cpu",
        help="Device that computes proofs: cuda fails where no GPU can be used, auto then uses the CPU and logs it.",
    ),
    click.option(
        "--cuda-devices",
        metavar="N,N",
        envvar="PROVER_CUDA_DEVICES",
        show_envvar=True,
        show_default="all",
        help="Indices of the GPUs that compute proofs.",
    ),
    click.option(
        "--cuda-library",
        metavar="FILE",
        type=click.Path(path_type=Path),
        envvar="PROVER_CUDA_LIBRARY",
        show_envvar=True,
        show_default="libgroth16_cuda.so next to the kernel",
        help="CUDA library, built by `make native-cuda`.",
    ),
    click.option(
        "--cuda-memory-gb",
        type=click.FloatRange(0),
        metavar="N",
        envvar="PROVER_CUDA_MEMORY_GIB",
        show_envvar=True,
        show_default="nine tenths of the free memory",
        help="Maximum GiB of each GPU for keys and proofs; beyond it the least recently used key is unloaded.",
    ),
    click.option(
        "--cuda-batch",
        type=click.IntRange(1, 1024),
        metavar="N",
        envvar="PROVER_CUDA_BATCH",
        show_envvar=True,
        show_default="64",
        help="Maximum proofs of a small circuit that a GPU computes together; 1 computes each alone.",
    ),
)


def device_options(command: Function) -> Function:
    """Add the options of this module to a command that proves."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def device_overrides(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the options, by the names of the settings."""
    return {setting: options[option] for option, setting in _SETTINGS.items() if options.get(option) is not None}


def device_settings_of(options: Mapping[str, Any]) -> DeviceSettings:
    """Return the settings that the options make; raises SettingsInvalid."""
    return device_settings(**device_overrides(options))
