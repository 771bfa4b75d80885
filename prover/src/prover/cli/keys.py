"""``prover keys``: commands about folders of keys."""

import click

from prover.cli.command import Group


@click.group(
    cls=Group,
    modules={
        "list": ("prover.cli.keys_list:list_keys", "List the published keys and those that are installed."),
        "download": ("prover.cli.download", "Download published keys."),
        "verify": ("prover.cli.keys_verify", "Check the keys of a directory, byte by byte."),
        "prepare": ("prover.cli.keys_prepare", "Write prepared keys, which load in milliseconds."),
        "dev": ("prover.cli.keys_dev", "Make the keys of a run mode, for development only."),
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
