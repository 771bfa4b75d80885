"""Owners whose files next to the keys are trusted: the content of a prepared key decides which memory a proof reads."""

import os
import stat


def untrusted_reason(file: os.stat_result, *owners: int) -> str | None:
    """Return why a file is not trusted; None if it is.

    It must belong to this user, to root or to one of ``owners``; another owner could change it at any time. A group of
    this process may have write permission: the fsGroup of a Kubernetes pod gets it on all files of a volume, and is
    trusted like the process. Other users must not have it.
    """
    groups = {os.getegid(), *os.getgroups()}
    if file.st_uid not in (os.geteuid(), 0, *owners):
        return f"it belongs to another user (uid {file.st_uid})"
    if file.st_mode & stat.S_IWOTH or (file.st_mode & stat.S_IWGRP and file.st_gid not in groups):
        return f"others may write to it (mode {stat.S_IMODE(file.st_mode):04o}, gid {file.st_gid})"
    return None
