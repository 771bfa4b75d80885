"""Options of ``prover start`` and ``prover check``, and the settings that they and the reference's variables make."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from prover.cli.options.device import device_options, device_overrides
from prover.cli.options.http import Overrides, http_options, http_overrides, positive_variable
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
from prover.settings import Settings, load_settings
from prover.variables import with_secret_files

_PRELOAD = ["none", "all", *MODES]

_ADDRESSES = (
    click.option(
        "--prover-address",
        metavar="HOST:PORT",
        envvar="PROVER_HTTP__ADDRESS",
        show_envvar=True,
        show_default="0.0.0.0:3001",
        help="Address of the API.",
    ),
    click.option(
        "--metrics-address",
        metavar="HOST:PORT",
        envvar="PROVER_HTTP__METRICS_ADDRESS",
        show_envvar=True,
        show_default="0.0.0.0:9998",
        help="Address of metrics, /livez and /readyz.",
    ),
    click.option("--json-logging", is_flag=True, help="Write JSON lines to standard output, even on a terminal."),
)
_MACHINE = (
    click.option(
        "--threads",
        type=click.IntRange(0, 1024),
        envvar="PROVER_PROVING__THREADS",
        show_envvar=True,
        show_default="one per CPU that affinity and quota grant",
        help="Kernel threads; a single proof uses all of them.",
    ),
    click.option(
        "--max-concurrency",
        type=click.IntRange(0, 1024),
        envvar="PROVER_PROVING__MAX_CONCURRENCY",
        show_envvar=True,
        show_default="one per two CPUs, at least two",
        help="Maximum proofs computed at once.",
    ),
    click.option(
        "--key-memory-gb",
        type=click.FloatRange(0),
        metavar="N",
        envvar="PROVER_KEYS__MEMORY_GIB",
        show_envvar=True,
        show_default="half of the memory",
        help="Maximum GiB of loaded keys; beyond it the least recently used key is unloaded.",
    ),
)
_CIRCUITS = (
    keys_dir_option,
    run_mode_option("PROVER_KEYS__RUN_MODE", "Circuits that this instance proves, by role; others are answered 503."),
    circuit_option("PROVER_KEYS__CIRCUITS", "Circuits that this instance proves, in addition to those of --run-mode,"),
    set_option("PROVER_KEYS__KEY_SET"),
    click.option(
        "--preload-keys",
        type=click.Choice(_PRELOAD),
        default="none",
        show_default=True,
        envvar="PROVER_KEYS__PRELOAD",
        show_envvar=True,
        help="Keys to load at the start and keep; /readyz fails until they are loaded. Others load on first use.",
    ),
    click.option(
        "--preload-circuits",
        multiple=True,
        metavar="NAME",
        callback=names_of,
        envvar="PROVER_KEYS__PRELOAD_CIRCUITS",
        show_envvar=True,
        help="Also preload these circuits, by circuit or key name. Repeatable.",
    ),
)
_DOWNLOADS = (
    click.option(
        "--auto-download",
        is_flag=True,
        envvar="PROVER_KEYS__AUTO_DOWNLOAD",
        show_envvar=True,
        help="Download a missing key on first use.",
    ),
    download_url_option,
    click.option(
        "--download-max-retries",
        type=click.IntRange(1, 1000),
        default=10,
        show_default=True,
        envvar="PROVER_KEYS__DOWNLOAD_MAX_RETRIES",
        show_envvar=True,
        help="Maximum attempts per file.",
    ),
    manifest_option,
)


def start_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of ``prover start``, which ``prover check`` shares."""
    command = device_options(http_options(queue_options(command)))
    for option in reversed((*_ADDRESSES, *_CIRCUITS, *_DOWNLOADS, *_MACHINE)):
        command = option(command)
    return command


def start_settings(options: Mapping[str, Any], environment: Mapping[str, str]) -> Settings:
    """Return the settings that ``prover start`` has with these options; raises SettingsInvalid."""
    return load_settings({**overrides_of(options, with_secret_files(environment)), **device_overrides(options)})


def overrides_of(options: Mapping[str, Any], environment: Mapping[str, str]) -> Overrides:
    """Return the settings that options and the reference's variables ask for; raises SettingsInvalid."""
    groups: Overrides = {
        "http": {"address": options["prover_address"], "metrics_address": options["metrics_address"]},
        "keys": _key_overrides(options, environment),
        "proving": {"threads": options["threads"], "max_concurrency": options["max_concurrency"]},
    }
    given = {
        group: {name: value for name, value in values.items() if value is not None} for group, values in groups.items()
    }
    for group, values in http_overrides(options, environment).items():
        given[group] |= values
    return given | queue_overrides(options, environment)


def _key_overrides(options: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    manifest: Path | None = options["manifest"]
    return {
        "directory": options["keys_dir"],
        "run_mode": options["run_mode"],
        "circuits": ",".join(options["circuits"]),
        "key_set": options["key_set"],
        "preload": options["preload_keys"],
        "preload_circuits": ",".join(options["preload_circuits"]),
        "memory_gib": options["key_memory_gb"],
        "total_memory_gib": positive_variable(environment, "PROVER_TOTAL_MEMORY_GB") or None,
        "auto_download": options["auto_download"],
        "download_url": options["download_url"],
        "download_max_retries": options["download_max_retries"],
        "manifest": manifest,
    }
