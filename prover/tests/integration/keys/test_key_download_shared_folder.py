"""Downloads into folders whose file system has no locks, or locks that hold on one machine alone."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from aiohttp import web
from faulty_key_server import Fault, KeyServer, held, running, status, truncated, wrong
from in_process_service import circuit

from prover.errors import KeyDownloadFailed
from prover.kernel.cancellation import CancelFlag
from prover.keys.download.download import download_keys
from prover.keys.download.partial_file import PartialFile, PartialFileSuperseded
from prover.keys.download.source import DownloadSource

pytestmark = pytest.mark.usefixtures("no_proxy")

CIRCUIT = circuit("v2_inclusion_32_1")
FILE = CIRCUIT.key_file
SIZE = 300_000


@pytest.fixture
def server() -> Iterator[KeyServer]:
    with running(KeyServer({FILE: random.Random(1).randbytes(SIZE)})) as started:
        yield started


@pytest.fixture
def local_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody gets the lock, as two machines do whose locks are their own."""
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)


@pytest.fixture(params=[errno.ENOLCK, errno.EOPNOTSUPP, errno.EBADF])
def no_locks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(_: int, __: int) -> None:
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(fcntl, "flock", flock)


def bring(server: KeyServer, folder: Path, attempts: int = 4) -> int:
    source = DownloadSource(server.url, attempts=attempts, backoff_s=0.01)
    return download_keys(folder, [CIRCUIT], source, CancelFlag())


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def require_published(server: KeyServer, folder: Path) -> None:
    """Require that the file is complete, and that no partial file is next to it."""
    assert (folder / FILE).read_bytes() == server.files[FILE]
    assert names(folder) == {FILE, "CHECKSUM"}


def paused(keep: int, reached: threading.Event, go_on: threading.Event) -> Fault:
    """Serve the whole file, but after ``keep`` bytes wait for an event."""

    async def answer(request: web.Request, data: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": str(len(data))})
        await response.prepare(request)
        await response.write(data[:keep])
        reached.set()
        while not go_on.is_set():  # noqa: ASYNC110 - the event belongs to another thread
            await asyncio.sleep(0.01)
        await response.write(data[keep:])
        return response

    return answer


@pytest.mark.usefixtures("no_locks")
def test_download__where_there_are_no_locks__continues_without(server: KeyServer, folder: Path) -> None:
    server.faults[FILE] = [truncated(1000), wrong(bytes(SIZE)), status(416)]
    assert bring(server, folder) == 1
    require_published(server, folder)


@pytest.mark.usefixtures("no_locks")
def test_download__where_there_are_no_locks__that_fails_leaves_nothing(server: KeyServer, folder: Path) -> None:
    server.faults[FILE] = [truncated(1000)] * 2
    with pytest.raises(KeyDownloadFailed, match=r"try again later, or check --download-url and the network$"):
        bring(server, folder, attempts=2)
    assert names(folder) == {"CHECKSUM"}


@pytest.mark.usefixtures("no_locks")
def test_download__where_there_are_no_locks__by_several_at_once__ends_well(server: KeyServer, folder: Path) -> None:
    server.faults[FILE] = [truncated(1000)] * 3
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: bring(server, folder), range(4))) == [1] * 4
    require_published(server, folder)


@pytest.mark.usefixtures("local_locks")
def test_download__while_another_machine_starts_again__publishes_no_hole(server: KeyServer, folder: Path) -> None:
    reached, go_on, last = threading.Event(), threading.Event(), threading.Event()
    server.faults[FILE] = [paused(100_000, reached, go_on), status(416), held(last)]
    with ThreadPoolExecutor(2) as pool:
        try:
            first = pool.submit(bring, server, folder)
            assert reached.wait(60)
            shared = folder / f".{FILE}.{hashlib.sha256(server.files[FILE]).hexdigest()[:16]}.partial"
            wait_for(lambda: shared.stat().st_size == 100_000)
            second = pool.submit(bring, server, folder)
            wait_for(lambda: server.gets[FILE] == 3)
            go_on.set()
            assert first.result(60) == 1
            assert (folder / FILE).read_bytes() == server.files[FILE]
            last.set()
            assert second.result(60) == 1
        finally:
            go_on.set()
            last.set()
    require_published(server, folder)


@pytest.mark.usefixtures("local_locks")
@pytest.mark.parametrize("keep", [0, 1000, 299_999])
def test_download__by_two_machines_at_once__ends_well(server: KeyServer, folder: Path, keep: int) -> None:
    server.faults[FILE] = [truncated(keep), wrong(bytes(SIZE)), truncated(keep), wrong(b"an error page")]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda _: bring(server, folder, attempts=9), range(2))) == [1] * 2
    require_published(server, folder)


def test_download__displaced_every_time__fails_and_reports_it(
    server: KeyServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def publish(_: PartialFile) -> None:
        raise PartialFileSuperseded

    monkeypatch.setattr(PartialFile, "publish", publish)
    with pytest.raises(KeyDownloadFailed, match=r"replaced the partial file: download by one process at a time"):
        bring(server, folder)
    assert FILE not in names(folder)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
