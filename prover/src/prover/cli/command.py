"""Commands whose help ends with examples, and whose failures become one line and an exit code."""

import contextlib
import errno
import gc
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import click

from prover.errors import DiskFull, ProverError

_OUTPUT_FAILURES = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Errors of writing, without EPIPE (a pipe without a reader), for which click ends the process."""
_SPARED = {"SSL_CERT_FILE": os.devnull, "PYDANTIC_DISABLE_PLUGINS": "__all__"}


@contextlib.contextmanager
def _quick_imports() -> Iterator[None]:
    """Shorten imports by a quarter of their time, which goes into parts that no command needs.

    aiohttp reads the system's certificates, twice, for connections of later; who makes one reads them himself.
    Pydantic looks through all installed packages for plugins. The collector looks through all that modules are made
    of, again and again, for half a megabyte of garbage.
    """
    given = {name: os.environ.get(name) for name in _SPARED}
    os.environ.update(_SPARED)
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
        for name, value in given.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class Command(click.Command):
    """A command with examples, which its help prints unchanged."""

    def __init__(self, *args: Any, examples: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse surplus arguments without repeating them: they may be parts of a secret with spaces."""
        ctx.allow_extra_args = True
        rest = super().parse_args(ctx, args)
        if rest and not ctx.resilient_parsing:
            raise click.UsageError(f"unexpected arguments: {len(rest)}; quote a value that has spaces", ctx)
        return rest

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, then the epilog."""
        _write_examples(self.examples, formatter)
        super().format_epilog(ctx, formatter)


class Group(click.Group):
    """A group of commands that may raise ProverError, and that has examples itself.

    ``modules`` maps names of commands to their summaries and to modules that hold them under that name (``-`` as
    ``_``), or under another one: ``module:name``. A module is imported when its command is used, so that a quick
    command does not wait for the imports of a server.
    """

    def __init__(
        self, *args: Any, modules: Mapping[str, tuple[str, str]], examples: tuple[str, ...] = (), **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.modules = modules
        self.examples = examples

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of all commands, in the order of the table."""
        return list(self.modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command."""
        if cmd_name not in self.modules:
            return None
        module, _, name = self.modules[cmd_name][0].partition(":")
        with _quick_imports():
            command: click.Command = getattr(import_module(module), name or cmd_name.replace("-", "_"))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the names and summaries of the table, without importing commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in self.modules.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, then the epilog."""
        _write_examples(self.examples, formatter)
        super().format_epilog(ctx, formatter)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line, including help; unwritable output gives one line and the exit code of DiskFull."""
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            # Errors of other files name the file, or were explained by the code that writes it.
            if error.errno not in _OUTPUT_FAILURES or error.filename is not None:
                raise
            _drop_output()
            reason = os.strerror(error.errno)
            click.echo(f"error: the output cannot be written: {reason}; make room, or write it elsewhere", err=True)
            sys.exit(DiskFull.exit_code)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; a ProverError ends the process with its exit code, Ctrl-C with that of the signal."""
        if os.getpid() == 1:  # the first process of a container
            from shared.shutdown import end_by_sigterm

            end_by_sigterm()
        try:
            return super().invoke(ctx)
        except ProverError as error:
            click.echo(f"error: {error.detail}", err=True)
            sys.exit(error.exit_code)
        except KeyboardInterrupt:
            sys.exit(128 + signal.SIGINT)


def _drop_output() -> None:
    """Discard buffered output: it would fail again at exit, with a traceback and another code."""
    with contextlib.suppress(OSError, ValueError):  # not a descriptor, as in tests
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, sys.stdout.fileno())
        os.close(sink)


def _write_examples(examples: tuple[str, ...], formatter: click.HelpFormatter) -> None:
    if not examples:
        return
    with formatter.section("Examples"):
        for example in examples:
            formatter.write(f"{'':>{formatter.current_indent}}{example}\n")
