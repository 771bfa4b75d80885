"""Whose files beside the keys are believed: what lies in a prepared file decides what a proof reads."""

import os
import stat


def untrusted_reason(file: os.stat_result, *owners: int) -> str | None:
    """Say why a file is not to be believed; None if it is.

    It must belong to this user, to root or to one of ``owners``, whoever else could change it at any time. A group of
    ours may have the right to write to it: the fsGroup of a Kubernetes pod gets that on whatever is in a volume, and is
    trusted with the process then. Everybody else never may.
    """
    groups = {os.getegid(), *os.getgroups()}
    if file.st_uid not in (os.geteuid(), 0, *owners):
        return f"it belongs to another user (uid {file.st_uid})"
    if file.st_mode & stat.S_IWOTH or (file.st_mode & stat.S_IWGRP and file.st_gid not in groups):
        return f"others may write to it (mode {stat.S_IMODE(file.st_mode):04o}, gid {file.st_gid})"
    return None
