"""Partial files on file systems whose locks fail, or hold on one machine alone: nothing wrong is ever published."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from prover.keys.catalogue.published_digests import ExpectedFile
from prover.keys.download.partial_file import PartialFile, PartialFileSuperseded

DATA = bytes(range(256)) * 40
EXPECTED = ExpectedFile("v2_inclusion_32_1.key", hashlib.sha256(DATA).hexdigest())
SHARED = f".{EXPECTED.name}.{EXPECTED.sha256[:16]}.partial"
WITHOUT_LOCKS = [errno.ENOLCK, errno.EOPNOTSUPP, errno.EBADF]


@pytest.fixture
def partial(tmp_path: Path) -> Iterator[PartialFile]:
    partial = PartialFile(tmp_path, EXPECTED)
    yield partial
    partial.close()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[PartialFile]:
    """The same file in the hands of another process."""
    other = PartialFile(tmp_path, EXPECTED)
    yield other
    other.close()


@pytest.fixture
def local_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody gets the lock, as two machines do whose locks are their own."""
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)


def fail_to_lock(number: int) -> Callable[[int, int], None]:
    def flock(_: int, __: int) -> None:
        raise OSError(number, os.strerror(number))

    return flock


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names alone


@pytest.mark.parametrize("number", WITHOUT_LOCKS)
def test_partial_file__where_there_are_no_locks__is_written_under_names_of_its_own(
    tmp_path: Path, partial: PartialFile, other: PartialFile, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(fcntl, "flock", fail_to_lock(number))
    before = open_files()
    assert partial.acquire()
    assert other.acquire()
    assert SHARED not in names(tmp_path)
    assert len(names(tmp_path)) == 2
    for each in (partial, other):
        assert not each.is_kept
        each.write(DATA[:1000])
        each.restart()
        each.write(DATA)
        each.publish()
        each.close()
    assert (tmp_path / EXPECTED.name).read_bytes() == DATA
    assert names(tmp_path) == {EXPECTED.name}
    assert open_files() == before


@pytest.mark.parametrize("number", WITHOUT_LOCKS)
def test_partial_file__where_there_are_no_locks__leaves_nothing_when_it_fails(
    tmp_path: Path, partial: PartialFile, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(fcntl, "flock", fail_to_lock(number))
    before = open_files()
    assert partial.acquire()
    partial.write(DATA[:1000])
    partial.close()
    assert names(tmp_path) == set()
    assert open_files() == before


def test_partial_file__where_there_are_no_locks__leaves_what_an_earlier_download_left(
    tmp_path: Path, partial: PartialFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / SHARED).write_bytes(DATA[:1000])
    monkeypatch.setattr(fcntl, "flock", fail_to_lock(errno.ENOLCK))
    assert partial.acquire()
    partial.close()
    assert (tmp_path / SHARED).read_bytes() == DATA[:1000]


def test_partial_file__restarted__stays_locked_and_is_continued_later(
    tmp_path: Path, partial: PartialFile, other: PartialFile
) -> None:
    before = open_files()
    assert partial.acquire()
    partial.write(DATA[1000:])
    partial.restart()
    assert not other.acquire()
    partial.write(DATA[:1000])
    partial.close()
    assert open_files() == before
    assert names(tmp_path) == {SHARED}
    assert other.acquire()
    other.resume()
    assert other.size == 1000
    other.write(DATA[1000:])
    other.publish()
    assert names(tmp_path) == {EXPECTED.name}


@pytest.mark.usefixtures("local_locks")
def test_restart__of_a_file_that_another_process_writes__makes_no_hole_in_it(
    tmp_path: Path, partial: PartialFile, other: PartialFile
) -> None:
    assert partial.acquire()
    partial.write(DATA[:1000])
    assert other.acquire()
    other.resume()
    other.restart()
    partial.write(DATA[1000:])
    with pytest.raises(PartialFileSuperseded):
        partial.publish()
    assert names(tmp_path) == {SHARED}
    partial.close()
    other.write(DATA)
    other.publish()
    assert (tmp_path / EXPECTED.name).read_bytes() == DATA
    assert names(tmp_path) == {EXPECTED.name}


@pytest.mark.usefixtures("local_locks")
@pytest.mark.parametrize("links", [True, False])
def test_publish__of_a_file_that_another_process_made_longer__is_refused(
    tmp_path: Path, partial: PartialFile, other: PartialFile, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    if not links:
        monkeypatch.setattr(os, "link", fail_to_lock(errno.EPERM))
    assert partial.acquire()
    assert other.acquire()
    other.write(bytes(len(DATA) + 1))
    partial.write(DATA)
    with pytest.raises(PartialFileSuperseded):
        partial.publish()
    assert names(tmp_path) == {SHARED}


@pytest.mark.usefixtures("local_locks")
def test_publish__of_a_file_that_another_process_published__is_refused_and_it_stays(
    tmp_path: Path, partial: PartialFile, other: PartialFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert partial.acquire()
    assert other.acquire()
    partial.write(DATA)
    other.write(DATA)
    other.publish()
    with monkeypatch.context() as unseen:
        unseen.setattr(Path, "is_file", lambda _: False)  # it came after the look
        with pytest.raises(PartialFileSuperseded):
            partial.publish()
    partial.close()
    assert (tmp_path / EXPECTED.name).read_bytes() == DATA
    assert names(tmp_path) == {EXPECTED.name}


def test_publish__where_the_target_came_meanwhile__leaves_it(tmp_path: Path, partial: PartialFile) -> None:
    assert partial.acquire()
    partial.write(DATA)
    (tmp_path / EXPECTED.name).write_bytes(b"of another process")
    partial.publish()
    assert (tmp_path / EXPECTED.name).read_bytes() == b"of another process"
    assert names(tmp_path) == {EXPECTED.name}


def test_publish__where_there_are_no_links__renames(
    tmp_path: Path, partial: PartialFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", fail_to_lock(errno.EPERM))
    assert partial.acquire()
    partial.write(DATA)
    partial.publish()
    assert names(tmp_path) == {EXPECTED.name}


@pytest.mark.usefixtures("local_locks")
@pytest.mark.parametrize("end", [PartialFile.restart, PartialFile.close])
def test_wrong_bytes__in_a_file_that_another_process_published__remove_it(
    tmp_path: Path, partial: PartialFile, other: PartialFile, end: Callable[[PartialFile], None]
) -> None:
    assert partial.acquire()
    assert other.acquire()
    partial.write(DATA)
    other.write(b"an error page")
    partial.publish()
    end(other)
    assert EXPECTED.name not in names(tmp_path)


@pytest.mark.usefixtures("local_locks")
def test_right_bytes__in_a_file_that_another_process_published__leave_it(
    tmp_path: Path, partial: PartialFile, other: PartialFile
) -> None:
    assert partial.acquire()
    assert other.acquire()
    partial.write(DATA)
    other.write(DATA[:1000])
    partial.publish()
    other.close()
    assert (tmp_path / EXPECTED.name).read_bytes() == DATA


@pytest.mark.usefixtures("local_locks")
def test_publish__while_another_process_restarts_the_file__takes_back_wrong_bytes(
    tmp_path: Path, partial: PartialFile, other: PartialFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert partial.acquire()
    assert other.acquire()
    partial.write(DATA)
    other.write(b"an error page")
    link = os.link

    def link_and_restart(source: Path, target: Path) -> None:
        link(source, target)
        other.restart()

    monkeypatch.setattr(os, "link", link_and_restart)
    with pytest.raises(PartialFileSuperseded):
        partial.publish()
    assert names(tmp_path) == {SHARED}


def test_publish__partial_files_of_other_releases__are_removed_unless_in_use(
    tmp_path: Path, partial: PartialFile
) -> None:
    abandoned, used, link, another = (
        tmp_path / name
        for name in (
            f".{EXPECTED.name}.{'0' * 16}.partial",
            f".{EXPECTED.name}.{'1' * 16}.partial",
            f".{EXPECTED.name}.{'2' * 16}.partial",
            f".v2_inclusion_32_2.key.{'0' * 16}.partial",
        )
    )
    for path in (abandoned, used, another):
        path.write_bytes(DATA[:10])
    link.symlink_to(another)
    with used.open("rb+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert partial.acquire()
        partial.write(DATA)
        partial.publish()
        assert names(tmp_path) == {EXPECTED.name, used.name, link.name, another.name}
