"""``prover setup``: a locally made proving key."""

from pathlib import Path
from typing import Any

import click

from prover.cli.compiling import made_key
from prover.cli.options.circuit import circuit_from, circuit_options
from prover.cli.options.files import NEW_FILE, force_option, require_free_outputs, threads_option
from prover.kernel.engine import Engine
from prover.keys.files.provenance import record_path
from prover.keys.setup.trusted_setup import INSECURE, Outputs, require_name_for_seed
from shared.process.command_line import Command


@click.command(
    cls=Command,
    examples=(
        "prover setup --circuit append --append-tree-height 32 --append-batch-size 10 \\",
        "    --output batch_append_32_10.key --output-vkey batch_append_32_10.vkey",
        "prover setup --circuit inclusion --legacy --inclusion-tree-height 26 --inclusion-compressed-accounts 1 \\",
        "    --output v1_inclusion_26_1.key --output-vkey v1_inclusion_26_1.vkey",
    ),
)
@circuit_options
@click.option("--output", type=NEW_FILE, required=True, metavar="FILE", help="Key file to write.")
@click.option("--output-vkey", type=NEW_FILE, required=True, metavar="FILE", help="Verifying key to write, as text.")
@force_option
@click.option(
    "--seed",
    metavar="TEXT",
    help=f"Text that the secrets are derived from, for tests only: anyone who knows it can forge proofs. The name of "
    f"--output must contain {INSECURE}.",
)
@threads_option
def setup(
    kind: str,
    legacy: bool,
    output: Path,
    output_vkey: Path,
    force: bool,
    seed: str | None,
    threads: int,
    **options: Any,
) -> None:
    """Make the proving key of a circuit in gnark's format, and its verifying key as text.

    Secrets come from the operating system and are wiped. A person who runs a setup alone could have kept them, so use
    such keys for development, tests and closed networks only. A record next to the key (FILE.json) states that, and
    `prover inspect` shows it. All files appear together at the end; a stopped setup leaves none.
    """
    circuit = circuit_from(kind, legacy, **options)
    require_name_for_seed(output, seed)
    require_free_outputs(force, output=output, output_vkey=output_vkey)
    outputs = Outputs(output, output_vkey, force)
    outputs.require_free()
    with Engine(threads) as engine:
        record = made_key(engine, circuit, outputs, seed)
    click.echo(f"{record.size} bytes written to {output}, {record.circuit}, sha256 {record.sha256}")
    click.echo(f"for development only; see {record_path(output)}", err=True)
