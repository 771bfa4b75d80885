"""Groups of commands whose failures become one line and an exit code."""

import contextlib
import errno
import gc
import os
import sys
from collections.abc import Iterator
from typing import Any

import click
from click.core import ParameterSource

from prover.errors import DiskFull, ProverError, SettingsInvalid
from shared.process.command_line import LazyGroup

_OUTPUT_FAILURES = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Errors of writing, without EPIPE (a pipe without a reader), for which click ends the process."""
_CERTIFICATES = "SSL_CERT_FILE"


@contextlib.contextmanager
def _quick_imports() -> Iterator[None]:
    """Shorten imports by work that no command needs.

    aiohttp reads the system's certificates twice; code that opens a connection reads them again. The garbage collector
    scans the modules repeatedly, and finds half a megabyte.
    """
    given = os.environ.get(_CERTIFICATES)
    os.environ[_CERTIFICATES] = os.devnull
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
        if given is None:
            del os.environ[_CERTIFICATES]
        else:
            os.environ[_CERTIFICATES] = given


class Group(LazyGroup):
    """A group of commands that may raise ProverError."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command, so that a quick one does not wait for the imports of a server."""
        with _quick_imports():
            return super().get_command(ctx, cmd_name)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line, including help; unwritable output gives one line and the exit code of DiskFull."""
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            # Errors about other files name the file, or were explained by the code that writes it.
            if error.errno not in _OUTPUT_FAILURES or error.filename is not None:
                raise
            _drop_output()
            reason = os.strerror(error.errno)
            click.echo(f"error: the output cannot be written: {reason}; make room, or write it elsewhere", err=True)
            sys.exit(DiskFull.exit_code)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; a ProverError ends the process with its exit code."""
        try:
            return super().invoke(ctx)
        except ProverError as error:
            click.echo(f"error: {error.detail}", err=True)
            sys.exit(error.exit_code)
        except click.BadParameter as error:
            if (variable := _variable_of(error)) is None:
                raise
            click.echo(f"error: {variable}: {error.message}", err=True)
            sys.exit(SettingsInvalid.exit_code)


def _variable_of(error: click.BadParameter) -> str | None:
    """Return the environment variable that a rejected value comes from; None for the command line."""
    if error.ctx is None or error.param is None or error.param.name is None:
        return None
    if error.ctx.get_parameter_source(error.param.name) is not ParameterSource.ENVIRONMENT:
        return None
    variables = [error.param.envvar] if isinstance(error.param.envvar, str) else error.param.envvar or ()
    return next((name for name in variables if os.environ.get(name)), None)


def _drop_output() -> None:
    """Discard buffered output: it would fail again at exit, with a traceback and another code."""
    with contextlib.suppress(OSError, ValueError):  # not a descriptor, as in tests
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, sys.stdout.fileno())
        os.close(sink)
