"""``forester config``: settings in effect, and their sources."""

import json
from typing import Any

import click
from pydantic import SecretStr

from forester.cli.options import output_option, setting_options
from forester.environment import variables
from forester.redaction import mask
from forester.settings import Settings, SigningKey, load_settings
from forester.settings.model import is_secret
from forester.settings.reference_only import ignored_variables
from forester.settings.sources import unknown_variables
from shared.process.command_line import Command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def config() -> None:
    """Show the configuration."""


@config.command(
    cls=Command, examples=("forester config show", "forester config show --output json | jq .rpc_url.origin")
)
@setting_options(*Settings.model_fields)
@output_option
def show(output: str, **flags: Any) -> None:
    """Print every setting with its value and its source; secrets are masked."""
    loaded = load_settings(flags)
    seen = variables()
    for sentence in (*unknown_variables(seen), *ignored_variables(seen)):
        click.echo(f"warning: {sentence}", err=True)
    rows = {
        name: {"value": shown(name, getattr(loaded.settings, name)), "origin": loaded.origins[name]}
        for name in Settings.model_fields
    }
    if output == "json":
        click.echo(json.dumps(rows, indent=2))
        return
    width = max(map(len, rows))
    for name, row in rows.items():
        value = "not set" if row["value"] is None else json.dumps(row["value"]).strip('"')
        click.echo(f"{name:{width}}  {value}  ({row['origin']})")


def shown(name: str, value: object) -> Any:
    """Return a value as it may be shown: secrets as stars, URLs without credentials, key pairs as addresses."""
    if isinstance(value, SigningKey):
        return f"key of {value.pubkey}"
    if isinstance(value, SecretStr):
        return mask(value.get_secret_value()) if name.endswith("_url") else "***"
    if isinstance(value, tuple):
        return [mask(item.get_secret_value()) if isinstance(item, SecretStr) else str(item) for item in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    return "***" if is_secret(name) else str(value)
