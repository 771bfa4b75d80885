"""The ``prover`` command: data on standard output, messages on standard error, documented exit codes."""

import click

from prover.cli.command import Group
from shared.process.logs import configure_logs

COMMANDS = {
    "start": ("prover.cli.commands.start", "Serve proofs over HTTP and prove the jobs of a queue."),
    "prove": ("prover.cli.commands.prove", "Prove one request."),
    "verify": ("prover.cli.commands.verify", "Verify a proof."),
    "inspect": ("prover.cli.commands.inspect", "Describe a key file after checking every byte of it."),
    "export-vk": ("prover.cli.commands.export_vk", "Write the verifying key of a key file."),
    "setup": ("prover.cli.commands.setup", "Make the proving and verifying key of a circuit."),
    "r1cs": ("prover.cli.commands.r1cs", "Write the constraint system of a circuit."),
    "import-setup": ("prover.cli.commands.import_setup", "Assemble a key file from the parts of a ceremony."),
    "download": ("prover.cli.commands.download", "Download published keys."),
    "keys": ("prover.cli.commands.keys.group:keys", "List, download, verify, prepare and make keys."),
    "check": ("prover.cli.commands.check", "Check machine requirements, settings, keys and addresses."),
    "gen-test-params": ("prover.cli.commands.gen_test_params", "Generate a valid request from random trees."),
    "install-for-cli": (
        "prover.cli.commands.install_for_cli",
        "Put this prover in the place of the one that the reference's launcher starts.",
    ),
    "version": ("prover.cli.commands.version", "Print the version."),
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
    epilog="Exit codes: 0 success, 1 invalid, refused, or a check failed, 2 usage, 65 malformed input, 69 key missing "
    "or not downloaded, 70 internal error, 75 try again later, 78 configuration, 130 and 143 stopped by a signal.",
)
@click.option("-v", "--verbose", is_flag=True, help="Also write debug lines.")
@click.option("-q", "--quiet", is_flag=True, help="Write errors only.")
@click.pass_context
def cli(ctx: click.Context, verbose: bool, quiet: bool) -> None:
    """Make and check Groth16 proofs for Light Protocol's circuits."""
    level = "error" if quiet else "debug" if verbose else "info"
    ctx.obj = level
    configure_logs(level=level)
