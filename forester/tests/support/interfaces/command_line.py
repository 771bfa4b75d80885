"""Commands in this process, as in a shell that has none of the settings."""

from click.testing import CliRunner

from forester.cli.main import cli

_UNSET = ("RPC_URL", "PAYER", "DERIVATION_PUBKEY", "FORESTER_RPC_URL", "FORESTER_SECRETS_DIR")


def run(*words: str, **environment: str) -> tuple[int, str]:
    """Exit code and output of ``forester WORDS``."""
    unset: dict[str, str | None] = dict.fromkeys(_UNSET)
    result = CliRunner().invoke(cli, words, env=unset | environment)
    return result.exit_code, result.output
