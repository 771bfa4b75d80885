"""``prover keys``: commands about folders of keys."""

import click

from prover.cli.command import Group


@click.group(
    cls=Group,
    modules={"dev": "prover.cli.keys_dev"},
    examples=("prover keys dev --mode local-rpc --keys-dir keys-cache/development",),
)
def keys() -> None:
    """Make the keys that a prover needs."""
