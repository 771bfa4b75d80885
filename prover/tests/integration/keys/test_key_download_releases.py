"""The CHECKSUM list of a folder whose keys came from several servers: what was good stays good, what was bad bad."""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from faulty_key_server import KeyServer, held, running
from in_process_service import circuit
from structlog.testing import capture_logs

from prover.errors import Cancelled
from prover.kernel.cancellation import CancelFlag
from prover.keys.download import checksum_list
from prover.keys.download.download import download_keys
from prover.keys.download.source import DownloadSource
from prover.keys.verify import accepted_digests
from shared.requests.circuit_id import CircuitId

OLD, NEW, MORE = (circuit(name) for name in ("v2_inclusion_32_1", "v2_inclusion_32_2", "v2_inclusion_32_3"))
ALL = [OLD, NEW, MORE]


pytestmark = pytest.mark.usefixtures("no_proxy")


def release(number: int) -> KeyServer:
    numbers = random.Random(number)
    return KeyServer({wanted.key_file: numbers.randbytes(10_000) for wanted in ALL})


@pytest.fixture
def first() -> Iterator[KeyServer]:
    with running(release(1)) as started:
        yield started


@pytest.fixture
def second() -> Iterator[KeyServer]:
    with running(release(2)) as started:
        yield started


def bring(server: KeyServer, folder: Path, *circuits: CircuitId, cancel: CancelFlag | None = None) -> int:
    return download_keys(folder, circuits, DownloadSource(server.url, attempts=1), cancel or CancelFlag())


def is_accepted(folder: Path, wanted: CircuitId) -> bool:
    """Return whether a start takes a key: no list names it, or one describes it."""
    path = folder / wanted.key_file
    accepted = accepted_digests(folder, None)(path)
    return not accepted or hashlib.sha256(path.read_bytes()).digest() in accepted


def line_of(server: KeyServer, wanted: CircuitId) -> str:
    return f"{hashlib.sha256(server.files[wanted.key_file]).hexdigest()}  {wanted.key_file}"


def lines(folder: Path) -> set[str]:
    return set((folder / "CHECKSUM").read_text().splitlines())


def test_download__from_another_release__leaves_good_what_is_there(
    first: KeyServer, second: KeyServer, folder: Path
) -> None:
    bring(first, folder, OLD)
    with capture_logs() as logs:
        assert bring(second, folder, NEW) == 1
    assert is_accepted(folder, OLD)
    assert is_accepted(folder, NEW)
    assert (folder / OLD.key_file).read_bytes() == first.files[OLD.key_file]
    assert lines(folder) == {line_of(first, OLD), line_of(second, NEW), line_of(second, MORE)}
    warnings = [entry for entry in logs if entry["event"] == "keys_of_another_release"]
    assert [entry["files"] for entry in warnings] == [OLD.key_file]
    assert second.url in warnings[0]["detail"]
    assert "remove them" in warnings[0]["remedy"]


def test_download__from_a_server_of_other_keys__keeps_the_lines_of_those_that_are_there(
    first: KeyServer, second: KeyServer, folder: Path
) -> None:
    second.checksums = line_of(second, NEW)
    bring(first, folder, OLD)
    with capture_logs() as logs:
        bring(second, folder, NEW)
    assert lines(folder) == {line_of(first, OLD), line_of(second, NEW)}
    assert "keys_of_another_release" not in {entry["event"] for entry in logs}


@pytest.mark.parametrize("named", [True, False])
def test_download__from_another_release__makes_no_damaged_key_good(
    first: KeyServer, second: KeyServer, folder: Path, named: bool
) -> None:
    if not named:
        second.checksums = line_of(second, NEW)
    bring(first, folder, OLD)
    (folder / OLD.key_file).write_bytes(b"damaged")
    assert not is_accepted(folder, OLD)
    bring(second, folder, NEW)
    assert not is_accepted(folder, OLD)


def test_download__from_the_release_of_a_key_replaced_by_hand__makes_it_good(
    first: KeyServer, second: KeyServer, folder: Path
) -> None:
    bring(first, folder, OLD)
    (folder / OLD.key_file).write_bytes(second.files[OLD.key_file])
    assert not is_accepted(folder, OLD)
    bring(second, folder, NEW)
    assert is_accepted(folder, OLD)
    assert (folder / "CHECKSUM").read_text() == second.checksums


def test_download__of_all_keys_again__ends_with_the_new_release(
    first: KeyServer, second: KeyServer, folder: Path
) -> None:
    bring(first, folder, *ALL)
    for wanted in ALL:
        (folder / wanted.key_file).unlink()
    assert bring(second, folder, *ALL) == len(ALL)
    assert (folder / "CHECKSUM").read_text() == second.checksums
    for wanted in ALL:
        assert (folder / wanted.key_file).read_bytes() == second.files[wanted.key_file]


def test_download__from_one_release__leaves_its_list_byte_for_byte(first: KeyServer, folder: Path) -> None:
    first.checksums = "\n".join(line_of(first, wanted).replace("  ", " *") for wanted in ALL) + "\n\n"
    bring(first, folder, OLD)
    bring(first, folder, NEW)
    assert (folder / "CHECKSUM").read_text() == first.checksums


def test_download__from_another_release_meanwhile__leaves_good_what_comes_later(
    first: KeyServer, second: KeyServer, folder: Path
) -> None:
    go_on = threading.Event()
    first.faults[OLD.key_file] = [held(go_on)]
    with ThreadPoolExecutor(1) as pool:
        try:
            running_ = pool.submit(bring, first, folder, OLD)
            wait_for(lambda: first.gets[OLD.key_file] == 1)
            bring(second, folder, NEW)
        finally:
            go_on.set()
        assert running_.result(60) == 1
    assert is_accepted(folder, OLD)
    assert is_accepted(folder, NEW)


def test_download__of_one_key_after_the_other__reads_those_of_another_release_once(
    first: KeyServer, second: KeyServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring(first, folder, OLD)
    bring(second, folder, NEW)
    monkeypatch.setattr(checksum_list, "sha256_of_file", lambda *_: pytest.fail("it was read before"))
    bring(second, folder, MORE)
    assert is_accepted(folder, OLD)


def test_download__cancelled_while_it_reads_keys_of_another_release__ends_soon(
    first: KeyServer, second: KeyServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = threading.Event()

    def read_for_ever(_: Any, check: Callable[[], None]) -> str:
        reading.set()
        while True:
            check()
            time.sleep(0.01)

    bring(first, folder, OLD)
    before = (folder / "CHECKSUM").read_text()
    monkeypatch.setattr(checksum_list, "sha256_of_file", read_for_ever)
    cancel = CancelFlag()
    with ThreadPoolExecutor(1) as pool:
        running_ = pool.submit(bring, second, folder, NEW, cancel=cancel)
        assert reading.wait(60)
        cancel.raise_flag()
        with pytest.raises(Cancelled):
            running_.result(60)
    assert (folder / "CHECKSUM").read_text() == before


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
