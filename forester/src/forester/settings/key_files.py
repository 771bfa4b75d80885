"""Files with a key pair, which are checked for a safe owner and mode."""

import functools
import os
import stat
from pathlib import Path

from shared.process.logs import get_logger

_log = get_logger(__name__)

_MOUNTED = "for a mounted Kubernetes secret: defaultMode: 0400 with fsGroup"


def read_key_file(path: Path, *, mounted: bool = False) -> str:
    """Return the text of a key file; ValueError with the remedy if its access rights are unsafe.

    The owner must be our user or root, and nobody else may write the file. Its group may read it: Kubernetes mounts
    secrets of a pod with fsGroup as 0440 or 0640 of root and that group. ``mounted`` says that the setting is one for
    mounted secrets. Their modes are often 0444 or 0644 and cannot be changed from inside, so read access of
    everybody is logged once. The same holds on a read-only file system, also for another owner: it wrote the mounted
    file, and cannot change it through the mount.
    """
    with path.open() as file:
        # Of the opened file: its path may lead to another one by now.
        status = os.fstat(file.fileno())
        read_only = _read_only(file.fileno())
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise ValueError(f"others may write {path}; run: chmod 600 {path} ({_MOUNTED})")
        if status.st_uid not in (0, os.geteuid()):
            fault = f"{path} belongs to the user {status.st_uid}"
            if not read_only:
                raise ValueError(f"{fault}, who may change it; run: chown {os.geteuid()} {path}")
            _warn(f"{fault}, not to {os.geteuid()}", f"chown {os.geteuid()}; {_MOUNTED}")
        if status.st_mode & stat.S_IROTH:
            if not mounted and not read_only:
                raise ValueError(
                    f"everybody may read {path}; run: chmod 600 {path} ({_MOUNTED}, or name the file with PAYER_FILE)"
                )
            _warn(f"everybody may read {path}", f"chmod 600; {_MOUNTED}")
        return file.read().strip()


def file_exists(path: str | Path) -> bool:
    """Return whether a file exists; False for text that cannot be a path."""
    return os.path.exists(path)  # noqa: PTH110 - Path.exists raises for names that are too long


def _read_only(descriptor: int) -> bool:
    return bool(os.fstatvfs(descriptor).f_flag & os.ST_RDONLY)


@functools.cache
def _warn(fault: str, remedy: str) -> None:
    """Log once per file: commands read settings for each of their checks."""
    _log.warning("key_file_readable", fault=fault, remedy=remedy)
