"""The ``forester`` command: data on standard output, messages on standard error, exit codes by cause."""

import click

from forester.cli.command import Group
from forester.environment import variables
from forester.log_level import log_level
from forester.memory_protection import protect_memory
from forester.observability.logs import configure_logs
from shared.process.command_line import before_command
from shared.process.logs import get_logger

_log = get_logger(__name__)

COMMANDS = {
    "start": ("forester.cli.start", "Register for epochs and process the assigned trees."),
    "status": ("forester.cli.status", "Print epochs, foresters, queues and trees."),
    "health": ("forester.cli.health", "Check balance and registration, from cron."),
    "dashboard": ("forester.cli.dashboard", "Serve the state of the network and of several foresters."),
    "check": ("forester.cli.check", "Check everything that a forester needs."),
    "config": ("forester.cli.config", "Show the settings and their sources."),
}
REPORTING = ("check", "config")
"""Commands whose output has the unknown variables."""


@click.group(
    cls=Group,
    modules=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 success, 1 a check failed, 2 usage, 3 and 4 causes of forester health, 65 malformed data, "
    "69 a service is unreachable, 70 internal, 75 try again later, 78 configuration, 130 and 143 by signal.",
)
@click.version_option(
    None, "-V", "--version", package_name="zkc-forester", prog_name="forester", message="%(prog)s %(version)s"
)
@click.option("-v", "--verbose", is_flag=True, help="Also log debug lines.")
@click.option("-q", "--quiet", is_flag=True, help="Log errors only.")
@click.pass_context
def cli(ctx: click.Context, /, verbose: bool, quiet: bool) -> None:
    """Move queued elements into Light Protocol's Merkle trees.

    Options are also read from the environment and from .env; `forester config show` prints the values in effect and
    their sources. Without -v and -q, FORESTER_LOG or RUST_LOG sets the log level.
    """
    refused = protect_memory()  # before .env is read, which may hold keys

    def prepare() -> None:
        from forester.settings.sources import UNKNOWN_REMEDY, unknown_variables  # help needs no settings

        seen = variables()
        configure_logs(level="error" if quiet else "debug" if verbose else log_level(seen))
        if refused is not None:
            _log.warning("memory_protection_failed", reason=refused, effect="other processes of the user may read keys")
        for sentence in unknown_variables(seen) if ctx.invoked_subcommand not in REPORTING else ():
            _log.warning("unknown_variable", detail=sentence, remedy=UNKNOWN_REMEDY)

    before_command(ctx, prepare)
