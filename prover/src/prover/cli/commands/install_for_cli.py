"""``prover install-for-cli``: this prover in the place of the binary that the reference's launcher starts."""

import os
import platform
import shlex
import sys
from pathlib import Path

import click

from prover.errors import SettingsInvalid
from prover.keys.files.atomic_file import atomic_file
from shared.process.command_line import Command

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""Words of the launcher in the file's name, by what the system says."""

# The shell becomes Python, whose arguments then have the name of the file, by which the launcher finds and kills it. A
# line "#!" cannot name an interpreter whose path is long or has blanks. With -P, files next to it are no modules.
_PROGRAM = """#!/bin/sh
'''exec' {python} -P "$0" "$@"
' '''
# Written by `prover install-for-cli` for {python}
from prover.cli.main import cli

cli()
"""


def default_path() -> Path:
    """Return the path at which the launcher looks since its release 0.28."""
    machine = platform.machine()
    return Path.home() / ".config/light/bin" / f"prover-linux-{_ARCHITECTURES.get(machine, machine)}"


@click.command(
    "install-for-cli",
    cls=Command,
    examples=(
        "prover install-for-cli",
        "prover install-for-cli node_modules/@lightprotocol/zk-compression-cli/bin/prover-linux-x64",
    ),
    epilog="PATH is the file that `light start-prover` and `light test-validator` start: by default that of releases "
    "since 0.28, ~/.config/light/bin/prover-linux-amd64 or -arm64.",
)
@click.argument("path", required=False, type=click.Path(dir_okay=False, path_type=Path))
def install_for_cli(path: Path | None) -> None:
    """Write a program for the launcher of @lightprotocol/zk-compression-cli that runs this prover."""
    target = default_path() if path is None else path
    if not target.name.startswith("prover-"):
        raise SettingsInvalid(
            f"{target}: the launcher stops the prover by the name of this file; call it {default_path().name}, or "
            "prover-linux-x64 for releases before 0.28"
        )
    program = _PROGRAM.format(python=_quoted(sys.executable))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsInvalid(f"cannot make {target.parent}: {error.strerror}") from error
    with atomic_file(target, force=True) as file:
        os.fchmod(file.fileno(), 0o755)
        file.write(program.encode())
    click.echo(f"{target} runs {sys.executable}")


def _quoted(path: str) -> str:
    """Return a path for the line that both the shell and Python read; raises SettingsInvalid where one misreads it."""
    if any(letter in path for letter in "\\\n'"):
        raise SettingsInvalid(f"{path!r} has a quote, a backslash or a line break; move the environment")
    return shlex.quote(path)
