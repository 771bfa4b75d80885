"""``prover version``: the versions of the interface and of this program."""

import click

from prover.versions import INTERFACE_VERSION, VERSION


@click.command()
def version() -> None:
    """Print the version of the interface and of this program."""
    click.echo(f"{INTERFACE_VERSION} (zkc-prover {VERSION})")
