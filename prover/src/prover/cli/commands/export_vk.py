"""``prover export-vk``: the verifying key of a proving key as a separate file."""

from pathlib import Path

import click

from prover.cli.options.files import key_option, threads_option
from prover.cli.work import load_key, run_cancellable
from prover.errors import SettingsInvalid
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine
from prover.keys.files.atomic_file import atomic_file
from shared.process.command_line import Command


@click.command(
    "export-vk",
    cls=Command,
    examples=("prover export-vk --key v2_inclusion_32_1.key --output vkeys/v2_inclusion_32_1.vkey",),
)
@key_option("Proving key.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    required=True,
    metavar="FILE",
    help="File to write; missing directories are created.",
)
@threads_option
def export_vk(key: Path, output: Path, threads: int) -> None:
    """Write the verifying key in gnark's compressed binary format, in the format version of the key file."""

    def work(cancel: CancelFlag) -> bytes:
        with Engine(threads) as engine, load_key(engine, key, cancel) as loaded:
            return loaded.verifying_key.write()

    data = run_cancellable(work)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        if output.exists() and not output.is_file():  # a device, or a pipe
            output.write_bytes(data)
        else:
            with atomic_file(output, force=True) as file:
                file.write(data)
    except OSError as error:
        raise SettingsInvalid(f"cannot write {output}: {error.strerror}") from error
    click.echo(f"{len(data)} bytes written to {output}")
