"""``prover keys``: commands about folders of keys."""

import click

from prover.cli.command import Group


@click.group(
    cls=Group,
    modules={
        "list": "prover.cli.keys_list:list_keys",
        "download": "prover.cli.download",
        "verify": "prover.cli.keys_verify",
        "prepare": "prover.cli.keys_prepare",
        "dev": "prover.cli.keys_dev",
    },
    examples=(
        "prover keys list --run-mode rpc",
        "prover keys download --run-mode rpc",
        "prover keys verify --deep",
        "prover keys dev --mode local-rpc --keys-dir keys-cache/development",
    ),
)
def keys() -> None:
    """Get, check and make the keys that a prover needs."""
