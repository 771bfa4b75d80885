"""``prover r1cs``: the constraint system of a circuit."""

from pathlib import Path

import click

from prover.circuits.catalogue import compile_circuit
from prover.circuits.output.gnark_014 import write_constraint_system
from prover.cli.options.circuit import circuit_from, circuit_options
from prover.cli.options.files import NEW_FILE, force_option, require_free_outputs
from prover.cli.work import progress, run_cancellable
from prover.kernel.cancellation import CancelFlag
from prover.keys.files.atomic_file import atomic_file, explained
from shared.process.command_line import Command


@click.command(
    cls=Command,
    examples=(
        "prover r1cs --circuit update --update-tree-height 32 --update-batch-size 10 --output batch_update_32_10.r1cs",
    ),
)
@circuit_options
@click.option("--output", type=NEW_FILE, required=True, metavar="FILE", help="File to write.")
@force_option
def r1cs(kind: str, legacy: bool, output: Path, force: bool, **sizes: int) -> None:
    """Write the constraint system of a circuit in gnark's format, as a ceremony needs it."""
    circuit = circuit_from(kind, legacy, **sizes)
    require_free_outputs(force, output=output)

    def work(cancel: CancelFlag) -> tuple[int, int]:
        with progress(f"compiling {circuit.name}"):
            compiled = compile_circuit(circuit, checkpoint=cancel.check)
            with atomic_file(output, force=force) as file, explained(output):
                size = write_constraint_system(compiled, file)
                cancel.check()
            return size, compiled.constraints

    size, constraints = run_cancellable(work)
    click.echo(f"{size} bytes written to {output}, {constraints} constraints")
