"""Options of ``prover start`` about the job queue, and the reference's variables for them."""

from collections.abc import Mapping
from typing import Any

import click

from prover.cli.options.http import positive_variable
from prover.cli.options.settings import Function, Overrides, SettingOption, add_options
from prover.errors import SettingsInvalid

_OPTIONS = (
    click.option(
        "--redis-url",
        metavar="URL",
        envvar=["PROVER_QUEUE__URL", "REDIS_URL"],
        show_envvar=True,
        help="Redis of the job queue: redis://, rediss://, unix:// or redis+sentinel://.",
    ),
    click.option("--queue-only", is_flag=True, help="Prove jobs of the queue only: no API, but metrics and probes."),
    click.option("--no-workers", is_flag=True, help="Serve the API and queue jobs for other instances to prove."),
    click.option("--server-only", is_flag=True, help="Serve the API without a queue, even if a Redis URL is set."),
    SettingOption(
        "queue.slots",
        "--queue-slots",
        type=click.IntRange(0, 100),
        show_default="by memory, as the reference; at least 1",
        help="Maximum jobs proved at once of each circuit: update, append, address-append.",
    ),
)


def queue_options(command: Function) -> Function:
    """Add the options of this module to a command."""
    return add_options(command, _OPTIONS)


def queue_overrides(options: Mapping[str, Any], environment: Mapping[str, str]) -> Overrides:
    """Return the values of the options and the reference's variables; raises SettingsInvalid where they contradict.

    QUEUE_MODE and SERVER_MODE count where no option says which parts run.
    """
    url = options["redis_url"] or environment.get("REDIS_URL", "")
    found: dict[str, Any] = {"url": url} if url else {}
    if options["queue_slots"] is not None:
        found["slots"] = options["queue_slots"]
    elif concurrency := positive_variable(environment, "PROVER_MAX_CONCURRENCY"):
        found["slots"] = min(concurrency, 100)
    for network in ("mainnet", "devnet"):
        variable = f"MAX_PENDING_{network.upper()}"
        if (pending := positive_variable(environment, f"PROVER_{variable}")) and (
            f"PROVER_QUEUE__{variable}" not in environment
        ):
            found[variable.lower()] = pending
    chosen = [name for name in ("queue_only", "no_workers", "server_only") if options[name]]
    if len(chosen) > 1:
        words = " and ".join(f"--{name.replace('_', '-')}" for name in chosen)
        raise SettingsInvalid(f"{words} exclude each other; use only one of them", names=tuple(words.split(" and ")))
    if options["server_only"]:
        return {"queue": {**found, "url": "", "http": True}}
    by_mode = not chosen and environment.get("QUEUE_MODE") == "true"
    if options["queue_only"] or by_mode:
        if not url:
            asked = "--queue-only" if options["queue_only"] else "QUEUE_MODE"
            raise SettingsInvalid(f"{asked} needs a queue; pass --redis-url or set REDIS_URL", names=(asked,))
        found["workers"] = True
        found["http"] = by_mode and environment.get("SERVER_MODE") == "true"
    if options["no_workers"]:
        found["workers"] = False
    return {"queue": found}
