"""Options of ``prover start`` and ``prover check``, and the settings that they and the reference's variables make."""

from collections.abc import Mapping
from typing import Any

import click

from prover.cli.options.device import device_options, device_overrides
from prover.cli.options.http import http_options, http_overrides, positive_variable
from prover.cli.options.keys import (
    MODES,
    circuit_option,
    download_url_option,
    keys_dir_option,
    manifest_option,
    names_of,
    run_mode_option,
    set_option,
)
from prover.cli.options.queue import queue_options, queue_overrides
from prover.cli.options.settings import Function, Overrides, SettingOption, add_options, given_settings
from prover.settings import Settings, load_settings
from prover.variables import with_secret_files

_PRELOAD = ["none", "all", *MODES]

_ADDRESSES = (
    SettingOption(
        "http.address",
        "--prover-address",
        metavar="HOST:PORT",
        show_default="0.0.0.0:3001",
        help="Address of the API.",
    ),
    SettingOption(
        "http.metrics_address",
        "--metrics-address",
        metavar="HOST:PORT",
        show_default="0.0.0.0:9998",
        help="Address of metrics, /livez and /readyz.",
    ),
    click.option("--json-logging", is_flag=True, help="Write JSON lines to standard output, even on a terminal."),
)
_MACHINE = (
    SettingOption(
        "proving.threads",
        "--threads",
        type=click.IntRange(0, 1024),
        show_default="one per CPU that affinity and quota grant",
        help="Kernel threads; a single proof uses all of them.",
    ),
    SettingOption(
        "proving.max_concurrency",
        "--max-concurrency",
        type=click.IntRange(0, 1024),
        show_default="one per two CPUs, at least two",
        help="Maximum proofs computed at once.",
    ),
    SettingOption(
        "keys.memory_gib",
        "--key-memory-gb",
        type=click.FloatRange(0),
        metavar="N",
        show_default="half of the memory",
        help="Maximum GiB of loaded keys; beyond it the least recently used key is unloaded.",
    ),
)
_CIRCUITS = (
    keys_dir_option,
    run_mode_option("PROVER_KEYS__RUN_MODE", "Circuits that this instance proves, by role; others are answered 503."),
    circuit_option("PROVER_KEYS__CIRCUITS", "Circuits that this instance proves, in addition to those of --run-mode,"),
    set_option("PROVER_KEYS__KEY_SET"),
    SettingOption(
        "keys.preload",
        "--preload-keys",
        type=click.Choice(_PRELOAD),
        default="none",
        show_default=True,
        help="Keys to load at the start and keep; /readyz fails until they are loaded. Others load on first use.",
    ),
    SettingOption(
        "keys.preload_circuits",
        "--preload-circuits",
        multiple=True,
        metavar="NAME",
        callback=names_of,
        help="Also preload these circuits, by circuit or key name. Repeatable.",
    ),
)
_DOWNLOADS = (
    SettingOption(
        "keys.auto_download",
        "--auto-download",
        is_flag=True,
        help="Download a missing key on first use.",
    ),
    download_url_option,
    SettingOption(
        "keys.download_max_retries",
        "--download-max-retries",
        type=click.IntRange(1, 1000),
        default=10,
        show_default=True,
        help="Maximum attempts per file.",
    ),
    manifest_option,
)


def start_options(command: Function) -> Function:
    """Add the options of ``prover start``, which ``prover check`` shares."""
    command = device_options(http_options(queue_options(command)))
    return add_options(command, (*_ADDRESSES, *_CIRCUITS, *_DOWNLOADS, *_MACHINE))


def start_settings(options: Mapping[str, Any], environment: Mapping[str, str]) -> Settings:
    """Return the settings that ``prover start`` has with these options; raises SettingsInvalid."""
    return load_settings({**overrides_of(options, with_secret_files(environment)), **device_overrides(options)})


def overrides_of(options: Mapping[str, Any], environment: Mapping[str, str]) -> Overrides:
    """Return the settings that options and the reference's variables ask for; raises SettingsInvalid."""
    given = given_settings((*_ADDRESSES, *_CIRCUITS, *_DOWNLOADS, *_MACHINE), options)
    keys = {
        "run_mode": options["run_mode"],
        "circuits": ",".join(options["circuits"]),
        "key_set": options["key_set"],
        "preload_circuits": ",".join(options["preload_circuits"]),
    }
    total_gib = positive_variable(environment, "PROVER_TOTAL_MEMORY_GB")
    if total_gib and "PROVER_KEYS__TOTAL_MEMORY_GIB" not in environment:
        given["keys"]["total_memory_gib"] = total_gib
    given["keys"] |= {name: value for name, value in keys.items() if value is not None}
    for group, values in http_overrides(options, environment).items():
        given.setdefault(group, {}).update(values)
    return given | queue_overrides(options, environment)
