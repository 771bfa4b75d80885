"""Downloads from servers that answer absurdly, slowly or without end: each ends with a typed error or with the key."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web
from faulty_key_server import Fault, KeyServer, running, status, truncated, without_length
from full_disk import disk_with_room
from in_process_service import circuit

from prover.errors import KeyDownloadFailed
from prover.kernel.cancellation import CancelFlag
from prover.keys.download import download, transfer
from prover.keys.download.download import download_keys
from prover.keys.download.partial_file import PartialFile
from prover.keys.download.source import DownloadSource
from shared.requests.circuit_id import CircuitId

pytestmark = pytest.mark.usefixtures("no_proxy")

ONE = [circuit("v2_inclusion_32_1")]
FILE = ONE[0].key_file
SIZE = 300_000


@pytest.fixture
def server() -> Iterator[KeyServer]:
    with running(KeyServer({FILE: random.Random(1).randbytes(SIZE)})) as started:
        yield started


def bring(server: KeyServer, folder: Path, silence_s: float = 60) -> int:
    """Download the key with four attempts, cancelled after 30 s."""
    cancel = CancelFlag()
    timer = threading.Timer(30, cancel.raise_flag)
    timer.start()
    try:
        source = DownloadSource(server.url, attempts=4, silence_s=silence_s, backoff_s=0.01)
        return download_keys(folder, ONE, source, cancel)
    finally:
        timer.cancel()


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def raw(*pieces: bytes, pause_s: float = 0) -> Fault:
    """Write these bytes to the connection, with pauses, and close it."""

    async def answer(request: web.Request, _: bytes) -> web.StreamResponse:
        assert request.transport is not None
        for piece in pieces:
            request.transport.write(piece)
            await asyncio.sleep(pause_s)
        request.transport.close()
        return web.Response()

    return answer


async def range_of_many_digits(_: web.Request, data: bytes) -> web.StreamResponse:
    return web.Response(status=206, body=data, headers={"Content-Range": f"bytes {'0' * 4400}-1/2"})


@pytest.mark.parametrize(
    ("code", "shown"), [(403, "the server answers 403 Forbidden"), (499, "the server answers 499")]
)
def test_download__refused_with_a_phrase_of_the_server__shows_only_the_standard_one(
    server: KeyServer, tmp_path: Path, code: int, shown: str
) -> None:
    server.faults[FILE] = [raw(b"HTTP/1.1 %d \x1b[2Jtry http://other\r\nContent-Length: 0\r\n\r\n" % code)]
    with pytest.raises(KeyDownloadFailed, match=f"{shown}: check --download-url"):
        bring(server, tmp_path)


def test_download__redirected_to_control_characters__shows_none_of_them(server: KeyServer, tmp_path: Path) -> None:
    server.faults[FILE] = [raw(b"HTTP/1.1 302 Found\r\nLocation: http://[\x1b[2J\r\nContent-Length: 0\r\n\r\n")] * 4
    with pytest.raises(KeyDownloadFailed, match=r"http://\[\\x1b\[2J") as caught:
        bring(server, tmp_path)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "fault",
    [
        range_of_many_digits,
        status(503, {"Retry-After": "Fri, 31 Dec 99999999999999999999 23:59:59 GMT"}),
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: " + b"0" * 4400 + b"5\r\n\r\nwrong"),
    ],
    ids=["range", "retry after", "length"],
)
def test_download__answered_with_absurd_numbers__is_tried_again(server: KeyServer, folder: Path, fault: Fault) -> None:
    server.faults[FILE] = [fault]
    assert bring(server, folder) == 1
    assert server.gets[FILE] == 2


def test_download__whose_progress_is_lost_each_time__ends_after_its_attempts(
    server: KeyServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "_NOTABLE_PROGRESS_BYTES", 1000)
    server.faults[FILE] = [truncated(2000), status(416)] * 20
    with pytest.raises(KeyDownloadFailed, match=r"\(4 attempts\)"):
        bring(server, folder)
    assert server.gets[FILE] == 4


def test_download__that_progresses_each_time__outlasts_its_attempts(
    server: KeyServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "_NOTABLE_PROGRESS_BYTES", 1000)
    server.faults[FILE] = [truncated(2000)] * 9
    assert bring(server, folder) == 1


def test_download__of_a_body_without_length_or_end__is_cut_and_discarded(
    server: KeyServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def a_third(_: CircuitId) -> int:
        return SIZE // 3

    monkeypatch.setattr(transfer, "file_bytes", a_third)
    server.faults[FILE] = [without_length] * 4
    server.sizes_known = False
    with pytest.raises(KeyDownloadFailed, match="more bytes than plausible"):
        bring(server, folder)
    assert names(folder) == {"CHECKSUM"}


@pytest.mark.parametrize("sizes_known", [True, False])
def test_download__of_an_announced_size_beyond_that_of_any_key__is_refused_unread(
    server: KeyServer, folder: Path, sizes_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "file_bytes", lambda _: SIZE // 3)
    server.sizes_known = sizes_known
    limit = r"the server announces 0\.3 MiB, and a key of this circuit has at most 0\.2 MiB: .*--manifest"
    with pytest.raises(KeyDownloadFailed, match=limit):
        bring(server, folder)
    assert (names(folder), server.gets[FILE]) == ({"CHECKSUM"}, 1)


def test_download__of_a_large_key_whose_size_is_pinned__is_no_matter_of_the_estimate(
    server: KeyServer, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "file_bytes", lambda _: SIZE // 3)
    entry = {"name": FILE, "size": SIZE, "sha256": hashlib.sha256(server.files[FILE]).hexdigest()}
    manifest = tmp_path / "pins.json"
    manifest.write_text(json.dumps([entry]))
    assert download_keys(folder, ONE, DownloadSource(server.url, manifest=manifest), CancelFlag()) == 1


def test_download__of_a_body_without_length_that_fills_the_disk__is_discarded(server: KeyServer, folder: Path) -> None:
    server.faults[FILE] = [without_length]
    with disk_with_room(50_000), pytest.raises(KeyDownloadFailed, match="No space left on device"):
        bring(server, folder)
    assert not list(folder.glob(".*.partial"))


HEADER = b"HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n"


@pytest.mark.parametrize(
    "fault",
    [raw(HEADER, b"\r\n", *([b"x"] * 600), pause_s=0.1), raw(HEADER, b"X: ", *([b"x"] * 600), pause_s=0.1)],
    ids=["body", "header"],
)
def test_download__of_a_byte_now_and_then__is_interrupted_and_tried_again(
    server: KeyServer, folder: Path, fault: Fault
) -> None:
    server.faults[FILE] = [fault, status(416)]  # the bytes are wrong ones
    assert bring(server, folder, silence_s=0.5) == 1
    assert server.gets[FILE] <= 3


def test_download__slow_but_steady__is_not_interrupted(server: KeyServer, folder: Path) -> None:
    async def slow(_: web.Request, data: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": str(len(data))})
        await response.prepare(_)
        for start in range(0, len(data), 75_000):
            await response.write(data[start : start + 75_000])
            await asyncio.sleep(0.5)
        return response

    server.faults[FILE] = [slow]
    assert bring(server, folder, silence_s=1.5) == 1
    assert server.gets[FILE] == 1


def test_list__by_default__has_a_limited_time() -> None:
    assert 0 < DownloadSource("https://keys.example").list_within_s <= 3600


def fail(*_: object) -> None:
    raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))


@pytest.mark.parametrize(("where", "name"), [(os, "statvfs"), (PartialFile, "left_over_bytes"), (PartialFile, "close")])
def test_download__onto_a_failing_disk__reports_it_as_a_failed_download(
    server: KeyServer, folder: Path, monkeypatch: pytest.MonkeyPatch, where: object, name: str
) -> None:
    monkeypatch.setattr(where, name, fail)
    with pytest.raises(KeyDownloadFailed, match=f"{FILE}; .*cannot be written: Stale file handle: check disk space"):
        bring(server, folder)
