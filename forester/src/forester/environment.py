"""Variables for all commands: those of the process, and those of a ``.env`` file in the working directory."""

import os
from collections.abc import Mapping
from pathlib import Path

DOTENV = Path(".env")


def variables() -> Mapping[str, str]:
    """Return all variables that are not empty; those of the process come before those of the file.

    A file that cannot be read is skipped: the loader of the settings reports it.
    """
    try:
        if not DOTENV.is_file():
            return os.environ
        from dotenv import dotenv_values  # most commands find no file, and each should start quickly

        return {name: value for name, value in dotenv_values(DOTENV).items() if value} | os.environ
    except (OSError, UnicodeDecodeError):
        return os.environ
