"""Commands that are imported when used; their failures become one masked line and an exit code."""

import os
import signal
import sys
import traceback
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

import click

from forester.errors import ForesterError
from forester.redaction import mask


class Command(click.Command):
    """A command with examples, which its help prints as they are."""

    def __init__(self, *args: Any, examples: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse arguments beyond the options without printing them: they may be parts of a key that has spaces."""
        ctx.allow_extra_args = True
        rest = super().parse_args(ctx, args)
        if rest and not ctx.resilient_parsing:
            raise click.UsageError(f"{len(rest)} unexpected arguments; quote a value that has spaces", ctx)
        return rest

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, then the epilog."""
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{'':>{formatter.current_indent}}{example}\n")
        super().format_epilog(ctx, formatter)


class Group(click.Group):
    """A group of commands that may raise ForesterError.

    ``modules`` maps their names to ``module`` or ``module:name``, and their summaries; ``refused`` maps names that are
    not commands here to what to do instead.
    """

    def __init__(
        self,
        *args: Any,
        modules: Mapping[str, tuple[str, str]],
        refused: Mapping[str, str] = MappingProxyType({}),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.modules = modules
        self.refused = refused

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of all commands, in the order of the table."""
        return list(self.modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; a refused one raises a usage error that says what to do."""
        if cmd_name in self.refused:
            raise click.UsageError(self.refused[cmd_name], ctx)
        if cmd_name not in self.modules:
            return None
        module, _, name = self.modules[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), name or cmd_name.replace("-", "_"))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the names and summaries of the table: no command is imported for it."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in self.modules.items()])

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; a ForesterError ends the process with its exit code, any other error with 70 and a trace."""
        if os.getpid() == 1:  # of a container
            from shared.shutdown import end_by_sigterm

            end_by_sigterm()
        try:
            return super().invoke(ctx)
        except ForesterError as error:
            click.echo(f"error: {error.detail}", err=True)
            sys.exit(error.exit_code)
        except KeyboardInterrupt:
            sys.exit(128 + signal.SIGINT)
        except (click.exceptions.Exit, click.ClickException, click.Abort, BrokenPipeError):
            raise
        except Exception:  # noqa: BLE001 - the last resort: nothing unmasked may reach a terminal or a log
            click.echo(mask(traceback.format_exc()), err=True)
            sys.exit(ForesterError.exit_code)
