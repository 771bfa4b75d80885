"""Commands that are imported when used; their failures become one masked line and an exit code."""

import sys
import traceback
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import click

from forester.errors import ForesterError
from forester.redaction import mask
from shared.command_line import LazyGroup


class Group(LazyGroup):
    """A group of commands that may raise ForesterError.

    ``refused`` maps names that are not commands here to what to do instead.
    """

    def __init__(self, *args: Any, refused: Mapping[str, str] = MappingProxyType({}), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.refused = refused

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; a refused one raises a usage error that says what to do."""
        if cmd_name in self.refused:
            raise click.UsageError(self.refused[cmd_name], ctx)
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; a ForesterError ends the process with its exit code, any other error with 70 and a trace."""
        try:
            return super().invoke(ctx)
        except ForesterError as error:
            click.echo(f"error: {error.detail}", err=True)
            sys.exit(error.exit_code)
        except (click.exceptions.Exit, click.ClickException, click.Abort, BrokenPipeError):
            raise
        except Exception:  # noqa: BLE001 - the last resort: nothing unmasked may reach a terminal or a log
            click.echo(mask(traceback.format_exc()), err=True)
            sys.exit(ForesterError.exit_code)
