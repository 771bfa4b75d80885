"""Whose files in a folder are believed: what lies in a prepared file decides what a proof reads."""

import os
import stat
from pathlib import Path


def objection(file: os.stat_result, folder: Path, *owners: int) -> str | None:
    """Say why a file in ``folder`` is not to be believed; None if it is.

    It must belong to this user, to root or to one of ``owners``, or lie in a folder that is shared with a group of
    ours: whoever may write to the folder can replace what is in it anyway. A group of ours may have the right to write
    to the file, too (the fsGroup of a Kubernetes pod gets it on whatever is in a volume), everybody else never.
    Raises OSError.
    """
    shared = folder.stat()
    groups = {os.getegid(), *os.getgroups()}
    is_shared = shared.st_mode & stat.S_IWGRP and not shared.st_mode & stat.S_IWOTH and shared.st_gid in groups
    if file.st_uid not in (os.geteuid(), 0, *owners) and not is_shared:
        return f"it belongs to another user (uid {file.st_uid})"
    if file.st_mode & stat.S_IWOTH or (file.st_mode & stat.S_IWGRP and file.st_gid not in groups):
        return f"others may write to it (mode {stat.S_IMODE(file.st_mode):04o}, gid {file.st_gid})"
    return None
