"""The `forester` command."""

import click


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="zkc-forester", prog_name="forester")
def cli() -> None:
    """Keep Light Protocol's Merkle trees moving.

    The daemon and its operator commands are not built yet: this release answers
    --version and --help only.
    """
