"""Options that several commands share."""

from pathlib import Path

import click

from prover.errors import SettingsInvalid
from prover.keys.atomic_file import require_free

EXISTING_FILE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)

key_option = click.option("--key", type=EXISTING_FILE, required=True, metavar="FILE", help="Proving key file.")

threads_option = click.option(
    "--threads",
    type=click.IntRange(0, 1024),
    default=0,
    envvar="PROVER_PROVING__THREADS",
    show_envvar=True,
    help="Kernel threads; 0 means one per available processor.",
)

output_option = click.option(
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of the answer.",
)

NEW_FILE = click.Path(dir_okay=False, path_type=Path)

force_option = click.option("--force", is_flag=True, help="Replace existing output files.")


def require_free_outputs(force: bool, **outputs: Path | None) -> None:
    """Raise SettingsInvalid that names the option, unless the files of all given options can be written."""
    for name, path in outputs.items():
        if path is None:
            continue
        try:
            require_free(path, force=force)
        except SettingsInvalid as error:
            raise SettingsInvalid(f"--{name.replace('_', '-')}: {error.detail}") from error
