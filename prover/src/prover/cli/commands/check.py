"""``prover check``: machine requirements and settings, checked before a start."""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import click

from prover.cli.checks.keys import key_checks
from prover.cli.checks.machine import check_address, machine_checks
from prover.cli.checks.proof_times import measure_proofs
from prover.cli.checks.queue import check_redis
from prover.cli.checks.result import CheckResult, Status
from prover.cli.checks.sizing import chart_values, sizing_notes, yaml_text
from prover.cli.options.files import output_option
from prover.cli.options.flag_words import FlagWords, setting_name
from prover.cli.options.sizing import Demand, sizing_option
from prover.cli.options.start import start_options, start_settings
from prover.cli.serving.server import fetch_of, required_circuits, selection_of
from prover.http.access.api_keys import SHORT_DETAIL, SHORT_REMEDY, ApiKeys
from prover.keys.catalogue.selection import CircuitSelection
from prover.settings import UNKNOWN_REMEDY, Settings, unknown_variables


@click.command(
    cls=FlagWords,
    examples=(
        "prover check",
        "prover check --run-mode forester --keys-dir /var/lib/prover/keys",
        "prover check --preload-keys rpc --key-memory-gb 8",
        "prover check --device cuda",
        "prover check --sizing inclusion=20 --sizing append=2 > values.yaml",
        "prover check --output json | jq '.checks[] | select(.status == \"failure\")'",
    ),
    epilog="Exit codes: 0 no failure (there may be warnings), 1 a failure, 2 usage, 69 no key to measure, "
    "78 configuration.",
)
@start_options
@sizing_option
@output_option
@click.pass_context
def check(ctx: click.Context, /, output: str, sizing: tuple[Demand, ...], **options: Any) -> None:
    """Check machine requirements, limits, GPUs, keys, addresses and Redis; each problem comes with a hint.

    Takes the options and variables of `prover start`: pass those that you will start it with. Nothing is downloaded or
    served. GPUs are opened if --device selects them.

    Less than the recommended machine (16 CPUs, 32 GB of memory, 100 GB of disk) is a warning. Too little for the
    selected keys is a failure. Without --run-mode and --circuit the selected keys are the installed and the preloaded
    ones.

    With --sizing nothing is checked: the times of proofs on this machine become values of the Helm chart, as YAML
    (prover/docs/how-to/capacity.md).
    """
    settings = start_settings(options, os.environ)
    selection = selection_of(settings.keys)
    if sizing:
        _show_sizing(settings, selection, sizing, output)
        return
    required = required_circuits(settings.keys, selection)
    fetch_of(settings.keys)  # raises for a malformed address
    access = [*_api_key_checks(settings), *_address_checks(settings, partial(setting_name, ctx))]
    checks = [
        *machine_checks(settings.keys.directory, devices=settings),
        *key_checks(settings.keys, settings.proving, selection, required),
        *access,
        *(CheckResult("variables", Status.WARNING, sentence, UNKNOWN_REMEDY) for sentence in unknown_variables()),
    ]
    if settings.queue.url:
        checks.append(check_redis(settings.queue.url.reveal()))
    _show(checks, output)
    if any(item.status is Status.FAILURE for item in checks):
        sys.exit(1)


def _show_sizing(settings: Settings, selection: CircuitSelection, demands: tuple[Demand, ...], output: str) -> None:
    """Print values of the chart; raises click.UsageError for options that contradict --sizing."""
    if settings.policy != "cpu":
        raise click.UsageError("--sizing measures proofs on the CPU; pass --device cpu")
    if excluded := [circuit for demand in demands for circuit in demand.circuits if not selection.includes(circuit)]:
        raise click.UsageError(f"--sizing: --run-mode or --circuit excludes {excluded[0]}; remove them")
    threads, seconds = measure_proofs(settings, demands)
    values = chart_values(demands, seconds, threads)
    if output == "json":
        click.echo(json.dumps(values, indent=2))
    else:
        click.echo(yaml_text(values, sizing_notes(demands, seconds, threads)), nl=False)


def _api_key_checks(settings: Settings) -> list[CheckResult]:
    """Return warnings of guessable API keys; raises SettingsInvalid for keys that cannot be read."""
    names = ApiKeys(settings.http).short_names()
    return (
        [CheckResult("API keys", Status.WARNING, f"{', '.join(names)}: {SHORT_DETAIL}", SHORT_REMEDY)] if names else []
    )


def _address_checks(settings: Settings, name_of: Callable[[str], str]) -> list[CheckResult]:
    """Return checks that the addresses are free; ``name_of`` returns the option or the variable that gave one."""
    http, checks = settings.http, []
    if settings.queue.http:
        checks.append(check_address("API address", http.address, name_of("--prover-address")))
    chosen = "metrics_address" in http.given
    option = name_of("--metrics-address")
    return [*checks, check_address("metrics address", http.metrics_address, option, must_be_free=chosen)]


def _show(checks: list[CheckResult], output: str) -> None:
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
