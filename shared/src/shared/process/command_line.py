"""Commands of both services: imported when used, with examples in their help; surplus arguments are not repeated."""

import io
import os
import signal
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import click

_PREPARATION = "shared.process.command_line.preparation"


def before_command(ctx: click.Context, prepare: Callable[[], None]) -> None:
    """Let a group call a function before its command runs, once all arguments are valid: so never before a help."""
    ctx.meta[_PREPARATION] = prepare


class _Exemplified(click.Command):
    """A command with examples, which its help prints unchanged."""

    def __init__(self, *args: Any, examples: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, then the epilog."""
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{'':>{formatter.current_indent}}{example}\n")
        super().format_epilog(ctx, formatter)


class Command(_Exemplified):
    """A command that refuses surplus arguments, and runs after what ``before_command`` has set."""

    def invoke(self, ctx: click.Context) -> Any:
        """Prepare and run the command."""
        if prepare := ctx.meta.get(_PREPARATION):
            prepare()
        return super().invoke(ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse surplus arguments without repeating them: they may be parts of a secret with spaces."""
        ctx.allow_extra_args = True
        rest = super().parse_args(ctx, args)
        if rest and not ctx.resilient_parsing:
            raise click.UsageError(f"unexpected arguments: {len(rest)}; quote a value that has spaces", ctx)
        return rest


class LazyGroup(_Exemplified, click.Group):
    """A group of commands, each imported when it is used.

    ``modules`` maps names of commands to the module that holds the command under that name (``-`` as ``_``), or under
    another one, ``module:name``, and to its summary.
    """

    def __init__(self, *args: Any, modules: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of all commands, in the order of the table."""
        return list(self.modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command."""
        if cmd_name not in self.modules:
            return None
        module, _, name = self.modules[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), name or cmd_name.replace("-", "_"))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the names and summaries of the table, without importing commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in self.modules.items()])

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line, including help; characters that standard output cannot encode are escaped."""
        if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
            sys.stdout.reconfigure(errors="backslashreplace")
        return super().main(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; Ctrl-C ends the process with the exit code of the signal."""
        if os.getpid() == 1:  # the first process of a container
            from shared.process.shutdown import end_by_sigterm

            end_by_sigterm()
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            sys.exit(128 + signal.SIGINT)
