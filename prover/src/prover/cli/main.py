"""The ``prover`` command: data on standard output, talk on standard error, exit codes that mean something."""

import click

from prover.cli.command import Group
from shared.logs import configure_logs

COMMANDS = {
    "start": "prover.cli.start",
    "prove": "prover.cli.prove",
    "verify": "prover.cli.verify",
    "inspect": "prover.cli.inspect",
    "export-vk": "prover.cli.export_vk",
    "setup": "prover.cli.setup",
    "r1cs": "prover.cli.r1cs",
    "import-setup": "prover.cli.import_setup",
    "download": "prover.cli.download",
    "keys": "prover.cli.keys",
    "check": "prover.cli.check",
    "gen-test-params": "prover.cli.gen_test_params",
    "version": "prover.cli.version",
}


@click.group(
    cls=Group,
    modules=COMMANDS,
    examples=(
        "prover prove --key v2_inclusion_32_1.key < request.json > proof.json",
        "prover verify --key v2_inclusion_32_1.key --public-input 0x0b37… < proof.json",
        "prover start --keys-dir proving-keys/     # the same over HTTP",
    ),
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 fine, 1 invalid, refused, or a check failed, 2 usage, 65 malformed input, 69 key missing or "
    "not downloaded, 70 internal, 75 try again later, 78 configuration, 130 and 143 by signal.",
)
@click.option("-v", "--verbose", is_flag=True, help="Write debug lines, too.")
@click.option("-q", "--quiet", is_flag=True, help="Write errors only.")
@click.pass_context
def cli(ctx: click.Context, verbose: bool, quiet: bool) -> None:
    """Make and check Groth16 proofs for Light Protocol's circuits."""
    level = "error" if quiet else "debug" if verbose else "info"
    ctx.obj = level
    configure_logs(level=level)
