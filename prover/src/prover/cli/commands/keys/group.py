"""``prover keys``: commands about folders of keys."""

import click

from prover.cli.command import Group


@click.group(
    cls=Group,
    modules={
        "list": ("prover.cli.commands.keys.list:list_keys", "List the published keys and those that are installed."),
        "download": ("prover.cli.commands.download", "Download published keys."),
        "verify": ("prover.cli.commands.keys.verify", "Check the keys of a directory, byte by byte."),
        "prepare": ("prover.cli.commands.keys.prepare", "Write prepared keys, which load in milliseconds."),
        "dev": ("prover.cli.commands.keys.dev", "Make the keys of a run mode, for development only."),
    },
    examples=(
        "prover keys list --run-mode rpc",
        "prover keys download --run-mode rpc",
        "prover keys verify --deep",
        "prover keys dev --run-mode local-rpc --keys-dir keys-cache/development",
    ),
)
def keys() -> None:
    """Get, check and make the keys that a prover needs."""
