"""``prover verify``: verification of a proof for given public inputs."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from prover.cli.options.files import expected_circuit_option, is_named, key_option, output_option
from prover.cli.standard_input import missing_body, read_body
from prover.cli.verifying_key import is_proving_key, open_verifying_key
from prover.cli.work import load_key, run_cancellable
from prover.errors import MalformedProof, ProofFailed
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine, VerifyingKey
from prover.keys.files.key_description import circuit_of
from prover.proving.proof_encoding import read_proof
from shared.process.command_line import Command
from shared.trees.field import InvalidNumber, parse_scalar


class PublicInput(click.ParamType[tuple[bytes, ...]]):
    """One or more hexadecimal numbers, separated by commas."""

    name = "HEX"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[bytes, ...]:
        """Parse the numbers as on the wire, reduced to the field."""
        if isinstance(value, tuple):
            return value
        try:
            return tuple(parse_scalar(text.strip())[0] for text in str(value).split(","))
        except InvalidNumber as error:
            self.fail(str(error), param, ctx)


@click.command(
    cls=Command,
    examples=(
        "prover verify --key v2_inclusion_32_1.key --public-input 0x0b37… < proof.json",
        "prover verify --key v1_inclusion_26_1.vkey --public-input 0xROOT --public-input 0xLEAF < proof.json",
    ),
)
@key_option("Proving key, or a verifying key as export-vk or setup writes it.")
@click.option(
    "--public-input",
    "public_inputs",
    type=PublicInput(),
    multiple=True,
    required=True,
    help="Public input in hexadecimal. Repeatable, or comma-separated; version 1: roots, then leaves or values.",
)
@expected_circuit_option(
    "Fail unless the proving key proves this circuit. Ignored for a verifying key, which does not name one."
)
@output_option
@click.pass_context
def verify(
    ctx: click.Context,
    key: Path,
    public_inputs: Sequence[tuple[bytes, ...]],
    circuits: tuple[str, ...],
    output: str,
) -> None:
    """Verify a proof.

    Reads the proof (JSON) from standard input. Exit code: 0 valid, 1 invalid, 2 wrong usage, 65 malformed key file.
    """
    values = [value for group in public_inputs for value in group]
    body = read_body()

    def work(cancel: CancelFlag) -> str | None:
        with _open_key(key, circuits, cancel) as verifying_key:
            expected = verifying_key.public_inputs
            if len(values) != expected:
                raise click.UsageError(
                    f"{key.name} has {expected} public inputs, but --public-input gives {len(values)}", ctx
                )
            try:
                if not body:
                    raise MalformedProof(missing_body("a proof", "prover verify", "proof.json"))
                verifying_key.verify(read_proof(body), b"".join(values))
            except ProofFailed as error:
                return error.detail
            return None

    reason = run_cancellable(work)
    if output == "json":
        click.echo(json.dumps({"valid": reason is None, "reason": reason}))
    else:
        click.echo("valid" if reason is None else f"invalid: {reason}")
    ctx.exit(0 if reason is None else 1)


@contextmanager
def _open_key(path: Path, circuits: Sequence[str], cancel: CancelFlag) -> Iterator[VerifyingKey]:
    """Open a key; raises click.UsageError if it names a circuit that is not one of the given."""
    if not circuits or not is_proving_key(path):
        with open_verifying_key(path, cancel) as verifying_key:
            yield verifying_key
        return
    with Engine() as engine, load_key(engine, path, cancel) as key:
        held = circuit_of(key.info)
        if held is None or not any(is_named(held, name) for name in circuits):
            names, what = ",".join(circuits), held.name if held else "an unknown circuit"
            raise click.UsageError(f"--circuit is {names}, but {path.name} holds {what}; remove or correct the option")
        yield key.verifying_key
