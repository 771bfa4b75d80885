"""Commands that are imported when used; their failures become one masked line and an exit code."""

import contextlib
import os
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

from forester.errors import ForesterError
from forester.redaction import mask
from shared.process.command_line import LazyGroup

_LONGEST_START_S = 10.0
"""Seconds that an interpreter may take to start."""


class Group(LazyGroup):
    """A group of commands that may raise ForesterError.

    ``refused`` maps names that are not commands here to what to do instead.
    """

    def __init__(self, *args: Any, refused: Mapping[str, str] = MappingProxyType({}), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.refused = refused

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run as the program of a process: limits of time count from the start of the process."""
        return super().__call__(*args, obj=process_start_s(), **kwargs)

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


def command_start_s() -> float:
    """Return the start of the process of this command, in seconds of ``time.monotonic``; now within other programs."""
    start = click.get_current_context().find_root().obj
    return start if isinstance(start, float) else time.monotonic()


def process_start_s() -> float:
    """Return the start of this process in seconds of ``time.monotonic``; now where /proc does not have it.

    Now as well for an older process than ``_LONGEST_START_S``: it ran another program before, and exec keeps the start.
    """
    now = time.monotonic()
    with contextlib.suppress(OSError, ValueError, IndexError, AttributeError):
        # Field 22, proc(5); the name in parentheses may have spaces.
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        since_boot = time.clock_gettime(time.CLOCK_BOOTTIME)
        age = since_boot - ticks / os.sysconf("SC_CLK_TCK")
        return now - age if 0 <= age <= _LONGEST_START_S else now
    return now
