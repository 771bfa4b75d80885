"""Options of ``prover start`` about access, overload and stopping, and the reference's variables for them."""

from collections.abc import Mapping
from typing import Any

import click

from prover.cli.options.settings import Function, Overrides, SettingOption, add_options, given_settings
from prover.errors import SettingsInvalid

_OPTIONS = (
    SettingOption(
        "http.api_keys_file",
        "--api-keys-file",
        metavar="FILE",
        help="File with API keys, one NAME=KEY or NAME:admin=KEY per line; reloaded on change and on SIGHUP.",
    ),
    SettingOption(
        "http.rate_limit_per_s",
        "--rate-limit",
        type=click.FloatRange(0),
        metavar="N",
        show_default="no limit",
        help="Maximum requests per second of each API key; more are answered 429.",
    ),
    click.option(
        "--cors-origin",
        multiple=True,
        metavar="ORIGIN",
        help="Origin whose web pages may call the API, * for any. Repeatable. Without it none may.",
    ),
    SettingOption(
        "proving.waiting_limit",
        "--waiting-limit",
        type=click.IntRange(0, 4096),
        show_default="64",
        help="Maximum waiting proofs; more are answered 503.",
    ),
    SettingOption(
        "http.drain_delay_s",
        "--drain-delay",
        type=click.FloatRange(0),
        metavar="SECONDS",
        show_default="5 in Kubernetes, otherwise 0",
        help="Time to keep serving after a stop signal, while /readyz fails.",
    ),
    SettingOption(
        "http.drain_deadline_s",
        "--drain-deadline",
        type=click.FloatRange(0),
        metavar="SECONDS",
        show_default="30",
        help="Time that running proofs get after that.",
    ),
)


def http_options(command: Function) -> Function:
    """Add the options of this module to a command."""
    return add_options(command, _OPTIONS)


def http_overrides(options: Mapping[str, Any], environment: Mapping[str, str]) -> Overrides:
    """Return the values of the options and the reference's variables; raises SettingsInvalid for a bad variable.

    The variables count where neither an option nor our own variable of the same meaning is given.
    """
    found: Overrides = {"http": {}, "proving": {}} | given_settings(_OPTIONS, options)
    if options["cors_origin"]:
        found["http"]["cors_origins"] = tuple(options["cors_origin"])
    # An empty variable must not open the API.
    if environment.get("PROVER_API_KEY") and not environment.get("PROVER_HTTP__API_KEY"):
        found["http"]["api_key"] = environment["PROVER_API_KEY"]
    concurrency = positive_variable(environment, "PROVER_MAX_CONCURRENCY")
    if concurrency and options["max_concurrency"] is None:
        found["proving"]["max_concurrency"] = concurrency
    return found


def positive_variable(environment: Mapping[str, str], name: str) -> int:
    """Return the value of a variable, 0 if it is not set; raises SettingsInvalid for what is no positive integer."""
    text = environment.get(name, "")
    if not text:
        return 0
    if not text.isascii() or not text.isdigit() or not int(text):
        raise SettingsInvalid(f"{name}: {text!r} is not a positive integer")
    return int(text)
