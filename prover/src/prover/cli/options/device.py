"""Options for the device of every command that makes proofs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from prover.cli.options.settings import Function, SettingOption, add_options, given_settings
from prover.settings import DeviceSettings, device_settings

_OPTIONS = (
    SettingOption(
        "device",
        "--device",
        metavar="cpu|cuda|cuda:N|auto",
        show_default="cpu",
        help="Device that computes proofs: cuda fails where no GPU can be used, auto then uses the CPU and logs it.",
    ),
    SettingOption(
        "cuda_devices",
        "--cuda-devices",
        metavar="N,N",
        show_default="all",
        help="Indices of the GPUs that compute proofs.",
    ),
    SettingOption(
        "cuda_library",
        "--cuda-library",
        metavar="FILE",
        type=click.Path(path_type=Path),
        show_default="libgroth16_cuda.so next to the kernel",
        help="CUDA library, built by `make native-cuda`.",
    ),
    SettingOption(
        "cuda_memory_gib",
        "--cuda-memory-gb",
        type=click.FloatRange(0),
        metavar="N",
        show_default="nine tenths of the free memory",
        help="Maximum GiB of each GPU for keys and proofs; beyond it the least recently used key is unloaded.",
    ),
    SettingOption(
        "cuda_batch",
        "--cuda-batch",
        type=click.IntRange(1, 1024),
        metavar="N",
        show_default="64",
        help="Maximum proofs of a small circuit that a GPU computes together; 1 computes each alone.",
    ),
)


def device_options(command: Function) -> Function:
    """Add the options of this module to a command that proves."""
    return add_options(command, _OPTIONS)


def device_overrides(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the options, by the names of the settings, which have no group."""
    return given_settings(_OPTIONS, options).get("", {})


def device_settings_of(options: Mapping[str, Any]) -> DeviceSettings:
    """Return the settings that the options make; raises SettingsInvalid."""
    return device_settings(**device_overrides(options))
