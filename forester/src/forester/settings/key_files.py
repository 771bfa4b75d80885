"""Files that hold a key pair: one that others may write is refused, one that everybody may read is refused or told."""

import functools
import os
import stat
from pathlib import Path

from shared.logs import get_logger

_log = get_logger(__name__)

_MOUNTED = "for a mounted Kubernetes secret: defaultMode: 0400 with fsGroup"


def read_key_file(path: Path, *, mounted: bool = False) -> str:
    """Return the text of a key file; ValueError with the remedy if others may do more with it than is safe.

    ``mounted`` says that the setting is one for mounted secrets. Their modes are often 0444 or 0644 and cannot be
    changed from inside, so that everybody may read them is told once; the same holds on a read-only file system.
    """
    with path.open() as file:
        # Of the file that is read, whatever its path leads to by now.
        mode = os.fstat(file.fileno()).st_mode
        if mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise ValueError(f"others may write {path}; run: chmod 600 {path} ({_MOUNTED})")
        if mode & stat.S_IROTH:
            if not mounted and not _read_only(file.fileno()):
                raise ValueError(
                    f"everybody may read {path}; run: chmod 600 {path} ({_MOUNTED}, or name the file with PAYER_FILE)"
                )
            _tell(path)
        return file.read().strip()


def _read_only(descriptor: int) -> bool:
    return bool(os.fstatvfs(descriptor).f_flag & os.ST_RDONLY)


@functools.cache
def _tell(path: Path) -> None:
    """Once per file: commands read settings for each of their checks."""
    _log.warning("key_file_readable", told=f"everybody may read {path}", hint=f"chmod 600; {_MOUNTED}")
