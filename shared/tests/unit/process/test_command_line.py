"""Commands of both services: their output on any terminal."""

from __future__ import annotations

import io
import sys

import click
import pytest

from shared.process.command_line import LazyGroup


@click.command()
def shown() -> None:
    """Print what an operator may see: a mark, and a file name that is not UTF-8."""
    click.echo("✓ /keys/\udcff")


@pytest.mark.parametrize(("encoding", "text"), [("utf-8", "✓ /keys/\\udcff"), ("latin-1", "\\u2713 /keys/\\udcff")])
def test_output__with_characters_that_the_terminal_cannot_show__has_them_escaped(
    monkeypatch: pytest.MonkeyPatch, encoding: str, text: str
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding))
    LazyGroup(modules={"shown": (f"{__name__}:shown", "")}).main(["shown"], standalone_mode=False)
    sys.stdout.flush()
    assert written.getvalue().decode(encoding) == f"{text}\n"
