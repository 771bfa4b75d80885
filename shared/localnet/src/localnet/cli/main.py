"""The ``localnet`` command."""

import click

from localnet.cli.control import advance, airdrop, epoch, faults, restore, save, seed, warp
from localnet.cli.logs import logs
from localnet.cli.up import up


@click.group()
@click.help_option("--help", "-h")
@click.version_option(package_name="zkc-localnet", prog_name="localnet")
def cli() -> None:
    """Run a Solana network with the real Light Protocol programs on this machine."""


for command in (up, logs, advance, warp, epoch, airdrop, seed, faults, save, restore):
    cli.add_command(command)
