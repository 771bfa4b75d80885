"""``prover import-setup``: a proving key from the parts that a ceremony leaves."""

from contextlib import ExitStack
from pathlib import Path

import click

from prover.cli.compiling import compiled_system
from prover.cli.options.circuit import circuit_from, circuit_options
from prover.cli.options.files import EXISTING_FILE, NEW_FILE, force_option, require_free_outputs, threads_option
from prover.cli.work import progress, run_cancellable
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine, KeyInfo
from prover.keys.files.key_description import is_gnark_08_proving_key
from prover.keys.files.private_copy import private_copy
from prover.keys.setup.trusted_setup import Outputs, assemble_key
from shared.process.command_line import Command


@click.command(
    "import-setup",
    cls=Command,
    examples=(
        "prover import-setup --circuit update --update-tree-height 32 --update-batch-size 500 \\",
        "    --pk update.pk --vk update.vk --output batch_update_32_500.key",
    ),
)
@circuit_options
@click.option("--pk", type=EXISTING_FILE, required=True, metavar="FILE", help="Proving key of the ceremony.")
@click.option("--vk", type=EXISTING_FILE, required=True, metavar="FILE", help="Verifying key of the ceremony.")
@click.option(
    "--r1cs",
    "system_file",
    type=EXISTING_FILE,
    metavar="FILE",
    help="Constraint system of the ceremony. Default: compiled here, for gnark 0.14.",
)
@click.option("--output", type=NEW_FILE, required=True, metavar="FILE", help="Key file to write.")
@click.option("--vkey-output", type=NEW_FILE, metavar="FILE", help="Verifying key to write, as text.")
@force_option
@threads_option
def import_setup(
    kind: str,
    legacy: bool,
    pk: Path,
    vk: Path,
    system_file: Path | None,
    output: Path,
    vkey_output: Path | None,
    force: bool,
    threads: int,
    **sizes: int,
) -> None:
    """Assemble a key file from a proving key, a verifying key and a constraint system.

    The result is loaded and every point is checked before the file appears. Parts that belong
    to another circuit are refused.
    """
    circuit = circuit_from(kind, legacy, **sizes)
    require_free_outputs(force, output=output, vkey_output=vkey_output)
    outputs = Outputs(output, vkey_output, force)

    def work(cancel: CancelFlag) -> KeyInfo:
        with ExitStack() as stack:
            proving_key, verifying_key = (stack.enter_context(private_copy(path, cancel)) for path in (pk, vk))
            if system_file is not None:
                system = stack.enter_context(private_copy(system_file, cancel))
            else:
                if is_gnark_08_proving_key(proving_key):
                    raise click.UsageError(f"{pk} was made by gnark 0.8; pass its constraint system with --r1cs")
                system = stack.enter_context(compiled_system(circuit, output.parent, cancel))
            engine = stack.enter_context(Engine(threads))
            stack.enter_context(progress(f"checking {output.name}"))
            return assemble_key(engine, circuit, (proving_key, verifying_key, system), outputs, cancel)

    info = run_cancellable(work)
    click.echo(f"{info.file_bytes} bytes written to {output}, {circuit.name}, {info.constraints} constraints")
