"""Check that the journal can be written; nothing is written."""

import os
from pathlib import Path

from forester.checks.result import CheckFailed


def check_journal(path: Path) -> str:
    """Return the path of the journal; CheckFailed if it cannot be written there."""
    if path.exists():
        if not path.is_file() or not os.access(path, os.R_OK | os.W_OK):
            raise CheckFailed(f"{path} is not a file that may be read and written; correct --journal")
        return f"continues with {path}"
    folder = next(item for item in path.absolute().parents if item.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise CheckFailed(f"{path} cannot be created, {folder} is not writable; correct --journal, or XDG_STATE_HOME")
    return f"will be {path}"
