from importlib.metadata import version

from click.testing import CliRunner

from forester.cli.main import cli


def test_forester__version_asked__prints_the_version_of_the_distribution() -> None:
    result = CliRunner().invoke(cli, ["--version"])
    assert result.exit_code == 0
    assert result.output == f"forester, version {version('zkc-forester')}\n"


def test_forester__help_asked__says_that_the_daemon_is_not_built_yet() -> None:
    result = CliRunner().invoke(cli, ["--help"])
    assert result.exit_code == 0
    assert "not built yet" in result.output


def test_forester__unknown_command__is_a_usage_error() -> None:
    result = CliRunner().invoke(cli, ["start"])
    assert result.exit_code == 2
    assert "No such command 'start'" in result.output
