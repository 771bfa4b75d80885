"""Trust in files next to the keys, by their owner."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from prover.keys.files.file_owner import untrusted_reason

ME, OWNER, STRANGER = 1000, 1001, 1002
OURS, THEIRS = 2000, 2001


@pytest.fixture(autouse=True)
def _me(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: ME)
    monkeypatch.setattr(os, "getegid", lambda: 1)
    monkeypatch.setattr(os, "getgroups", lambda: [1, OURS])


def stat_of(uid: int, gid: int, mode: int) -> Any:
    return SimpleNamespace(st_uid=uid, st_gid=gid, st_mode=0o100000 | mode)


@pytest.mark.parametrize(
    ("uid", "gid", "mode", "reported"),
    [
        (ME, THEIRS, 0o444, None),
        (0, THEIRS, 0o444, None),
        (OWNER, THEIRS, 0o444, None),
        (ME, OURS, 0o664, None),  # as fsGroup leaves it
        (ME, THEIRS, 0o664, "others may write to it (mode 0664, gid 2001)"),
        (ME, OURS, 0o666, "others may write to it (mode 0666, gid 2000)"),
        (ME, OURS, 0o446, "others may write to it (mode 0446, gid 2000)"),
        (STRANGER, OURS, 0o444, "it belongs to another user (uid 1002)"),
    ],
)
def test_objection__of_owner_group_and_mode__is_that_others_could_have_written_it(
    uid: int, gid: int, mode: int, reported: str | None
) -> None:
    assert untrusted_reason(stat_of(uid, gid, mode), OWNER) == reported
