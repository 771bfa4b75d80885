"""Options of ``prover start`` about access, overload and stopping, and the reference's variables for them."""

from collections.abc import Callable, Mapping
from typing import Any

import click

from prover.errors import SettingsInvalid

Overrides = dict[str, dict[str, Any]]
"""Values by group and name of the settings."""

_GIB = 2**30
_OPTIONS = (
    click.option(
        "--api-keys-file",
        metavar="FILE",
        envvar="PROVER_HTTP__API_KEYS_FILE",
        show_envvar=True,
        help="File with API keys, one NAME=KEY or NAME:admin=KEY per line; reloaded on change and on SIGHUP.",
    ),
    click.option(
        "--rate-limit",
        type=click.FloatRange(0),
        metavar="N",
        envvar="PROVER_HTTP__RATE_LIMIT_PER_S",
        show_envvar=True,
        show_default="no limit",
        help="Maximum requests per second of each API key; more are answered 429.",
    ),
    click.option(
        "--cors-origin",
        multiple=True,
        metavar="ORIGIN",
        help="Origin whose web pages may call the API, * for any. Repeatable. Without it none may.",
    ),
    click.option(
        "--waiting-limit",
        type=click.IntRange(0, 4096),
        envvar="PROVER_PROVING__WAITING_LIMIT",
        show_envvar=True,
        show_default="64",
        help="Maximum waiting proofs; more are answered 503.",
    ),
    click.option(
        "--drain-delay",
        type=click.FloatRange(0),
        metavar="SECONDS",
        envvar="PROVER_HTTP__DRAIN_DELAY_S",
        show_envvar=True,
        show_default="5 in Kubernetes, otherwise 0",
        help="Time to keep serving after a stop signal, while /readyz fails.",
    ),
    click.option(
        "--drain-deadline",
        type=click.FloatRange(0),
        metavar="SECONDS",
        envvar="PROVER_HTTP__DRAIN_DEADLINE_S",
        show_envvar=True,
        show_default="30",
        help="Time that running proofs get after that.",
    ),
)
_SETTINGS = {
    "api_keys_file": ("http", "api_keys_file"),
    "rate_limit": ("http", "rate_limit_per_s"),
    "waiting_limit": ("proving", "waiting_limit"),
    "drain_delay": ("http", "drain_delay_s"),
    "drain_deadline": ("http", "drain_deadline_s"),
}


def http_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of this module to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def http_overrides(options: Mapping[str, Any], environment: Mapping[str, str]) -> Overrides:
    """Return the values of the options and the reference's variables; raises SettingsInvalid for a bad variable.

    The variables count where neither an option nor our own variable of the same meaning is given.
    """
    found: Overrides = {"http": {}, "proving": {}}
    for option, (group, name) in _SETTINGS.items():
        if options[option] is not None:
            found[group][name] = options[option]
    if options["cors_origin"]:
        found["http"]["cors_origins"] = tuple(options["cors_origin"])
    if environment.get("PROVER_API_KEY"):
        found["http"]["api_key"] = environment["PROVER_API_KEY"]
    concurrency = positive_variable(environment, "PROVER_MAX_CONCURRENCY")
    if concurrency and not options["max_concurrency"]:
        found["proving"]["max_concurrency"] = concurrency
    total_gib = positive_variable(environment, "PROVER_TOTAL_MEMORY_GB")
    if total_gib and "PROVER_PROVING__WORKING_MEMORY_BYTES" not in environment:
        found["proving"]["working_memory_bytes"] = total_gib * _GIB // 2
    return found


def positive_variable(environment: Mapping[str, str], name: str) -> int:
    """Return the value of a variable, 0 if it is not set; raises SettingsInvalid for what is no positive integer."""
    text = environment.get(name, "")
    if not text:
        return 0
    if not text.isascii() or not text.isdigit() or not int(text):
        raise SettingsInvalid(f"{name}: {text!r} is not a positive integer")
    return int(text)
