"""``prover version``: the version of the interface, then our own."""

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as distribution_version

import click

INTERFACE_VERSION = "2.0.7"
"""The reference release whose interface this is; launchers compare the first number printed with theirs."""


@click.command()
def version() -> None:
    """Print the version of the interface and of this program."""
    try:
        own = distribution_version("zkc-prover")
    except PackageNotFoundError:
        own = "unknown"
    click.echo(f"{INTERFACE_VERSION} (zkc-prover {own})")
