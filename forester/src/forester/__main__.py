"""`python -m forester`."""

from forester.cli.main import cli

cli(prog_name="forester")
