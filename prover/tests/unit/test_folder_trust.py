"""Whose files in a folder of prepared keys are believed."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from prover.keys.folder_trust import objection

ME, OWNER, STRANGER = 1000, 1001, 1002
OURS, THEIRS = 2000, 2001


@pytest.fixture(autouse=True)
def _me(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: ME)
    monkeypatch.setattr(os, "getegid", lambda: 1)
    monkeypatch.setattr(os, "getgroups", lambda: [1, OURS])


def stat_of(uid: int, gid: int, mode: int) -> Any:
    return SimpleNamespace(st_uid=uid, st_gid=gid, st_mode=0o100000 | mode)


def in_folder(mode: int, gid: int = OURS) -> Path:
    return cast("Path", SimpleNamespace(stat=lambda: stat_of(0, gid, mode)))


PRIVATE, SHARED = in_folder(0o755), in_folder(0o2775)


@pytest.mark.parametrize(
    ("uid", "gid", "mode", "folder", "told"),
    [
        (ME, THEIRS, 0o444, PRIVATE, None),
        (0, THEIRS, 0o444, PRIVATE, None),
        (OWNER, THEIRS, 0o444, PRIVATE, None),
        (ME, OURS, 0o664, PRIVATE, None),  # as fsGroup leaves it
        (ME, THEIRS, 0o664, PRIVATE, "others may write to it (mode 0664, gid 2001)"),
        (ME, OURS, 0o666, PRIVATE, "others may write to it (mode 0666, gid 2000)"),
        (ME, OURS, 0o446, SHARED, "others may write to it (mode 0446, gid 2000)"),
        (STRANGER, OURS, 0o444, PRIVATE, "it belongs to another user (uid 1002)"),
        (STRANGER, OURS, 0o444, SHARED, None),
        (STRANGER, OURS, 0o664, SHARED, None),
        (STRANGER, OURS, 0o444, in_folder(0o2777), "it belongs to another user (uid 1002)"),
        (STRANGER, OURS, 0o444, in_folder(0o2775, THEIRS), "it belongs to another user (uid 1002)"),
    ],
)
def test_objection__of_owner_group_and_mode__is_that_others_could_have_written_it(
    uid: int, gid: int, mode: int, folder: Path, told: str | None
) -> None:
    assert objection(stat_of(uid, gid, mode), folder, OWNER) == told
