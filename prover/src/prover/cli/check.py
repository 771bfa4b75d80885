"""``prover check``: whether this machine can prove, before it must."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from prover.cli.device_options import device_options, device_settings_of
from prover.cli.flag_words import FlagWords
from prover.cli.key_checks import key_checks
from prover.cli.key_options import (
    circuit_option,
    keys_dir_option,
    manifest_option,
    run_mode_option,
    selection_from,
    set_option,
)
from prover.cli.machine_checks import Check, Status, check_address, machine_checks
from prover.cli.options import output_option
from prover.cli.queue_checks import check_redis
from prover.http.app import split_address
from prover.settings import HttpSettings, load_settings

_METRICS_ADDRESS: str = HttpSettings().metrics_address


@click.command(
    cls=FlagWords,
    examples=(
        "prover check",
        "prover check --run-mode forester --keys-dir /var/lib/prover/keys",
        "prover check --device cuda",
        "prover check --output json | jq '.checks[] | select(.status == \"failure\")'",
    ),
    epilog="Exit codes: 0 no failure (there may be warnings), 1 a failure, 2 usage, 78 configuration.",
)
@keys_dir_option
@run_mode_option(what="Check for the keys of a role.")
@circuit_option(what="Check for these keys")
@set_option()
@manifest_option
@click.option("--auto-download", is_flag=True, help="Take missing keys for a warning, since they will be downloaded.")
@click.option(
    "--key-memory-gb",
    type=click.FloatRange(0),
    metavar="N",
    envvar="PROVER_KEYS__MEMORY_GIB",
    show_envvar=True,
    show_default="half of the memory",
    help="GiB for loaded keys.",
)
@click.option(
    "--prover-address",
    metavar="HOST:PORT",
    default="0.0.0.0:3001",
    show_default=True,
    envvar="PROVER_HTTP__ADDRESS",
    show_envvar=True,
    help="Where the API will listen.",
)
@click.option(
    "--metrics-address",
    metavar="HOST:PORT",
    show_default=_METRICS_ADDRESS,
    envvar="PROVER_HTTP__METRICS_ADDRESS",
    show_envvar=True,
    help="Where metrics will be served.",
)
@click.option(
    "--redis-url",
    metavar="URL",
    envvar=["PROVER_QUEUE__URL", "REDIS_URL"],
    show_envvar=True,
    help="Redis of the job queue.",
)
@device_options
@output_option
def check(
    keys_dir: Path,
    run_mode: str | None,
    circuits: tuple[str, ...],
    key_set: str,
    manifest: Path | None,
    prover_address: str,
    metrics_address: str | None,
    output: str,
    **options: Any,
) -> None:
    """Check processor, memory, disk, limits, GPU, keys, ports and Redis, with a hint for whatever is wrong.

    GPUs are opened where --device asks for them.

    What falls short of the specification's host table is a warning; too little for the selected keys is a failure.
    Without --run-mode and --circuit these are the keys that are in the folder.
    """
    overrides = {"directory": keys_dir, "manifest": manifest, "memory_gib": options["key_memory_gb"]}
    given = {name: value for name, value in overrides.items() if value is not None}
    if options["auto_download"]:
        given["auto_download"] = True
    settings = load_settings({"keys": given})
    devices = device_settings_of(options)
    split_address(prover_address, "--prover-address")
    metrics, chosen = metrics_address or _METRICS_ADDRESS, metrics_address is not None
    split_address(metrics, "--metrics-address")
    checks = [
        *machine_checks(keys_dir, devices=devices),
        *key_checks(settings.keys, settings.proving, selection_from(run_mode, circuits, key_set)),
        check_address("API address", prover_address, "--prover-address"),
        check_address("metrics address", metrics, "--metrics-address", must_be_free=chosen),
    ]
    if options["redis_url"]:
        checks.append(check_redis(options["redis_url"]))
    _show(checks, output)
    if any(item.status is Status.FAILURE for item in checks):
        sys.exit(1)


def _show(checks: list[Check], output: str) -> None:
    failures = sum(item.status is Status.FAILURE for item in checks)
    warnings = sum(item.status is Status.WARNING for item in checks)
    if output == "json":
        click.echo(json.dumps({"ok": not failures, "checks": [asdict(item) for item in checks]}, indent=2))
        return
    width = max(len(item.name) for item in checks)
    for item in checks:
        click.echo(f"{item.status:<8} {item.name:<{width}}  {item.detail}")
        if item.hint:
            click.echo(f"{'':<8} {'':<{width}}  → {item.hint}")
    click.echo(f"{failures} failures, {warnings} warnings")
