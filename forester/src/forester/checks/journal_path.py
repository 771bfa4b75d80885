"""Check that a forester can start with the journal; nothing is changed, though SQLite may leave a ``-shm`` file."""

import os
from pathlib import Path

from forester.checks.result import CheckFailed, CheckWarned
from forester.journal.database import JournalLocked, require_usable


def check_journal(path: Path) -> str:
    """Return the path of the journal.

    Raises CheckFailed if it cannot be written there, JournalError if it is not a journal of this release, CheckWarned
    while another process uses it.
    """
    try:
        exists = path.exists()
        folder = path.resolve().parent if exists else next(item for item in path.absolute().parents if item.exists())
    except OSError as error:
        raise CheckFailed(f"{path} cannot be reached: {error.strerror}; correct --journal") from None
    if exists and not (path.is_file() and os.access(path, os.R_OK | os.W_OK)):
        raise CheckFailed(f"{path} is not a file that may be read and written; correct --journal")
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise CheckFailed(
            f"{path} cannot be written in {folder}, which is not writable; correct --journal, or XDG_STATE_HOME"
        )
    if not exists:
        return f"will be {path}"
    try:
        require_usable(path)
    except JournalLocked:
        raise CheckWarned(f"{path} is in use; a second forester would not start with it") from None
    return f"continues with {path}"
