"""Downloads against a server with faults: what was published arrives, or nothing is there and it is said why."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import random
import threading
import time
from collections import namedtuple
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from faulty_key_server import (
    Fault,
    KeyServer,
    at_another_place,
    ignoring_ranges,
    running,
    silent,
    status,
    truncated,
    without_length,
    wrong,
)
from full_disk import disk_with_room
from in_process_service import circuit

from prover.errors import Cancelled, KeyDownloadFailed, SettingsInvalid
from prover.kernel.cancellation import CancelFlag
from prover.keys.download.download import download_keys
from prover.keys.download.partial_file import PartialFile
from prover.keys.download.source import DownloadSource

pytestmark = pytest.mark.usefixtures("no_proxy")

NAMES = ("v2_inclusion_32_1", "v2_inclusion_32_2", "v1_inclusion_26_1")
CIRCUITS = [circuit(name) for name in NAMES]
ONE = CIRCUITS[:1]
FILE = ONE[0].key_file
SIZE = 300_000


@pytest.fixture
def server() -> Iterator[KeyServer]:
    numbers = random.Random(1)
    files = {wanted.key_file: numbers.randbytes(SIZE + index) for index, wanted in enumerate(CIRCUITS)}
    with running(KeyServer(files)) as started:
        yield started


def source(server: KeyServer, attempts: int = 4, silence_s: float = 60, manifest: Path | None = None) -> DownloadSource:
    return DownloadSource(server.url, attempts=attempts, silence_s=silence_s, backoff_s=0.01, manifest=manifest)


def bring(server: KeyServer, folder: Path, attempts: int = 4) -> int:
    return download_keys(folder, ONE, source(server, attempts), CancelFlag())


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def require_published(server: KeyServer, folder: Path) -> None:
    """Require that the file is complete, and that no partial file is next to it."""
    assert (folder / FILE).read_bytes() == server.files[FILE]
    assert names(folder) == {FILE, "CHECKSUM"}


def test_download__of_several_keys__brings_them_and_the_list(server: KeyServer, folder: Path) -> None:
    assert download_keys(folder, CIRCUITS, source(server), CancelFlag()) == 3
    assert names(folder) == {*server.files, "CHECKSUM"}
    for name, data in server.files.items():
        assert (folder / name).read_bytes() == data


def test_download__of_keys_that_are_there__needs_no_network(folder: Path) -> None:
    folder.mkdir()
    (folder / CIRCUITS[0].key_file).write_bytes(b"present")
    (folder / CIRCUITS[2].earlier_key_file).write_bytes(b"present under its earlier name")
    nowhere = DownloadSource("http://127.0.0.1:1/keys", attempts=1)
    assert download_keys(folder, [CIRCUITS[0], CIRCUITS[2]], nowhere, CancelFlag()) == 0


@pytest.mark.parametrize(
    "faults",
    [
        (status(500),),
        (status(503, {"Retry-After": "0"}), status(429), status(408)),
        (truncated(1000),),
        (truncated(0), truncated(200_000), truncated(10)),
        (wrong(b"an error page"),),
        (wrong(bytes(SIZE)),),
        (wrong(bytes(SIZE + 1)),),
        (truncated(1000), ignoring_ranges),
        (truncated(1000), at_another_place),
        (truncated(1000), status(416)),
        (without_length,),
    ],
    ids=[
        "500",
        "503 429 408",
        "truncated",
        "truncated thrice",
        "other bytes",
        "zeros",
        "too long",
        "ignores ranges",
        "continues elsewhere",
        "416",
        "no length",
    ],
)
def test_download__with_passing_faults__ends_with_the_published_bytes(
    server: KeyServer, folder: Path, faults: tuple[Fault, ...]
) -> None:
    server.faults[FILE] = list(faults)
    assert bring(server, folder) == 1
    require_published(server, folder)


def test_download__interrupted__continues_where_it_ended(server: KeyServer, folder: Path) -> None:
    server.faults[FILE] = [truncated(100_000)]
    with pytest.raises(KeyDownloadFailed, match=r"100000 of 300000 bytes \(1 attempt\)|before the file did"):
        bring(server, folder, attempts=1)
    assert FILE not in names(folder)
    assert bring(server, folder) == 1
    assert server.ranges == ["bytes=100000-"]
    require_published(server, folder)


def test_download__of_which_all_bytes_are_here__asks_for_none(server: KeyServer, folder: Path) -> None:
    folder.mkdir()
    digest = hashlib.sha256(server.files[FILE]).hexdigest()
    (folder / f".{FILE}.{digest[:16]}.partial").write_bytes(server.files[FILE])
    assert bring(server, folder) == 1
    assert server.gets[FILE] == 0
    require_published(server, folder)


def test_download__continued_with_foreign_bytes__starts_again(server: KeyServer, folder: Path) -> None:
    folder.mkdir()
    digest = hashlib.sha256(server.files[FILE]).hexdigest()
    (folder / f".{FILE}.{digest[:16]}.partial").write_bytes(bytes(1000))
    assert bring(server, folder) == 1
    require_published(server, folder)


def test_download__from_a_silent_server__is_tried_again(server: KeyServer, folder: Path) -> None:
    server.faults[FILE] = [silent(1000)]
    assert download_keys(folder, ONE, source(server, silence_s=0.5), CancelFlag()) == 1
    require_published(server, folder)


def test_download__from_a_server_silent_for_ever__fails_and_keeps_what_came(server: KeyServer, folder: Path) -> None:
    server.faults[FILE] = [silent(1000)] * 2
    with pytest.raises(
        KeyDownloadFailed,
        match=r"file not found: v2_inclusion_32_1\.key; .*sent too little for too long \(2 attempts\)",
    ):
        download_keys(folder, ONE, source(server, attempts=2, silence_s=0.3), CancelFlag())
    left = [path for path in folder.iterdir() if path.suffix == ".partial"]
    assert [path.stat().st_size for path in left] == [1000]


@pytest.mark.parametrize(
    ("fault", "message", "gets"),
    [
        (status(404), r"404 Not Found: check --download-url", 1),
        (status(403), r"403 Forbidden: check --download-url, the credentials and the proxy", 1),
        (status(400), r"400 Bad Request: check --download-url", 1),
        (status(500), r"500 Internal Server Error \(4 attempts\): try again later", 4),
        (
            wrong(bytes(SIZE)),
            r"checksum mismatch: SHA-256 of the 300000 bytes is [0-9a-f]{64}, expected [0-9a-f]{64}",
            3,
        ),
    ],
)
def test_download__that_fails__says_why_and_leaves_nothing(
    server: KeyServer, folder: Path, fault: Fault, message: str, gets: int
) -> None:
    server.faults[FILE] = [fault] * 9
    with pytest.raises(KeyDownloadFailed, match=message) as caught:
        bring(server, folder)
    assert caught.value.detail.startswith(f"proving key file not found: {FILE}; downloading it from {server.url}")
    assert names(folder) == {"CHECKSUM"}
    assert server.gets[FILE] == gets


def test_download__of_which_one_file_fails__brings_the_others(server: KeyServer, folder: Path) -> None:
    server.faults[FILE] = [status(404)]
    with pytest.raises(KeyDownloadFailed, match=FILE):
        download_keys(folder, CIRCUITS, source(server), CancelFlag())
    assert names(folder) == {*server.files, "CHECKSUM"} - {FILE}


def test_checksum_list__not_there__is_named(server: KeyServer, folder: Path) -> None:
    server.checksum_faults = [status(404)]
    with pytest.raises(KeyDownloadFailed, match=rf"not found: {FILE}; downloading CHECKSUM from .*404 Not Found"):
        bring(server, folder)


def test_checksum_list__failing_first__is_asked_again(server: KeyServer, folder: Path) -> None:
    server.checksum_faults = [status(502), truncated(10)]
    assert bring(server, folder) == 1


@pytest.mark.parametrize("text", ["<html>", "0" * 63 + "  x.key", "../CHECKSUM", "0" * 64 + "  ../x.key"])
def test_checksum_list__that_is_none__is_refused(server: KeyServer, folder: Path, text: str) -> None:
    server.checksums = text
    with pytest.raises(KeyDownloadFailed, match="line 1 is not a SHA-256 digest and a file name"):
        bring(server, folder)
    assert names(folder) == set()


def test_checksum_list__without_the_key__reports_it(server: KeyServer, folder: Path) -> None:
    server.checksums = ""
    with pytest.raises(KeyDownloadFailed, match=rf"no checksum found for {FILE}: check --download-url, or"):
        bring(server, folder)


def test_checksum_list__without_one_of_the_keys__brings_the_others(server: KeyServer, folder: Path) -> None:
    server.checksums = "".join(line for line in server.checksums.splitlines(keepends=True) if FILE not in line)
    with pytest.raises(KeyDownloadFailed, match=f"not found: {FILE}; .*no checksum found for {FILE}"):
        download_keys(folder, CIRCUITS, source(server), CancelFlag())
    assert names(folder) == {*server.files, "CHECKSUM"} - {FILE}


def write_manifest(path: Path, server: KeyServer, **changes: object) -> Path:
    data = server.files[FILE]
    entry = {"name": FILE, "size": len(data), "sha256": hashlib.sha256(data).hexdigest(), "note": "ours"}
    path.write_text(json.dumps({"keys": [entry | changes]}))
    return path


def test_manifest__pinned__replaces_the_list(server: KeyServer, folder: Path, tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path / "pins.json", server)
    assert download_keys(folder, ONE, source(server, manifest=manifest), CancelFlag()) == 1
    assert server.gets["CHECKSUM"] == 0
    assert names(folder) == {FILE}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sha256": "0" * 64}, "checksum mismatch: .*expected 0{64}"),
        ({"size": 17}, "the server offers 300000 bytes, and 17 were published"),
    ],
)
def test_manifest__that_the_server_does_not_meet__is_what_counts(
    server: KeyServer, folder: Path, tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    manifest = write_manifest(tmp_path / "pins.json", server, **changes)
    with pytest.raises(KeyDownloadFailed, match=message):
        download_keys(folder, ONE, source(server, manifest=manifest), CancelFlag())
    assert names(folder) == set()


@pytest.mark.parametrize("text", ["{", "[]x", '{"keys": 5}', '{"keys": [5]}', '{"keys": [{"name": "../x"}]}', "7"])
def test_manifest__that_is_none__is_refused_by_name(server: KeyServer, folder: Path, tmp_path: Path, text: str) -> None:
    manifest = tmp_path / "pins.json"
    manifest.write_text(text)
    with pytest.raises(SettingsInvalid, match=r"pins\.json cannot be used as a manifest"):
        download_keys(folder, ONE, source(server, manifest=manifest), CancelFlag())


Space = namedtuple("Space", "f_bavail f_frsize")


@pytest.mark.parametrize("sizes_known", [True, False])
def test_download__larger_than_the_disk__writes_nothing(
    server: KeyServer, folder: Path, monkeypatch: pytest.MonkeyPatch, sizes_known: bool
) -> None:
    server.sizes_known = sizes_known
    monkeypatch.setattr(os, "statvfs", lambda _: Space(100, 1000))
    message = r"not enough disk space: 0\.3 MiB more are needed, and 0\.1 MiB are free: free some space"
    with pytest.raises(KeyDownloadFailed, match=message):
        bring(server, folder)
    assert names(folder) == {"CHECKSUM"}


def test_download__onto_a_disk_that_fills_up__reports_it_and_continues_later(server: KeyServer, folder: Path) -> None:
    message = "No space left on device: check disk space and permissions"
    with disk_with_room(50_000), pytest.raises(KeyDownloadFailed, match=message):
        bring(server, folder)
    assert FILE not in names(folder)
    assert bring(server, folder) == 1
    assert server.ranges == ["bytes=50000-"]
    require_published(server, folder)


def test_download__into_a_place_that_is_no_folder__reports_it(server: KeyServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(KeyDownloadFailed, match=r"cannot be written: .*: check its permissions"):
        bring(server, tmp_path / "file" / "keys")


def test_download__into_a_read_only_folder__reports_it(
    server: KeyServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    with pytest.raises(KeyDownloadFailed, match=r"cannot be written: permission denied: check its permissions"):
        bring(server, folder)
    assert not server.gets


def test_download__from_a_port_nobody_listens_on__reports_it(folder: Path) -> None:
    nowhere = DownloadSource("http://127.0.0.1:1/keys", attempts=2, backoff_s=0.01)
    with pytest.raises(KeyDownloadFailed, match=r"the connection failed: .*\(2 attempts\)") as failure:
        download_keys(folder, ONE, nowhere, CancelFlag())
    assert "Connection refused: check the address, and that the service runs" in str(failure.value)
    assert "ssl:default" not in str(failure.value)


def test_download__with_tls_from_a_server_without__names_the_cause(server: KeyServer, folder: Path) -> None:
    source = DownloadSource(server.url.replace("http://", "https://"), attempts=1, backoff_s=0.01)
    with pytest.raises(KeyDownloadFailed, match="the server answers without TLS: check the port") as failure:
        download_keys(folder, ONE, source, CancelFlag())
    assert "ssl:default" not in str(failure.value)


@pytest.mark.parametrize("url", ["", "keys", "ftp://host/keys", "http://", "http://[/"])
def test_download__from_what_is_no_address__is_refused_by_the_flag(folder: Path, url: str) -> None:
    with pytest.raises(SettingsInvalid, match="--download-url"):
        download_keys(folder, ONE, DownloadSource(url), CancelFlag())


def test_download__from_an_address_with_a_password__does_not_show_it(server: KeyServer, folder: Path) -> None:
    server.checksum_faults = [status(404)]
    address = server.url.replace("http://", "http://user:geheim@") + "?token=geheim"
    with pytest.raises(KeyDownloadFailed) as caught:
        download_keys(folder, ONE, DownloadSource(address), CancelFlag())
    assert "geheim" not in caught.value.detail


def test_download__through_a_proxy__asks_it(server: KeyServer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy gets the whole address in the request line; the server here answers either form."""
    monkeypatch.setenv("http_proxy", server.url.removesuffix("/keys"))
    elsewhere = DownloadSource("http://keys.invalid/keys", attempts=1)
    assert download_keys(folder, ONE, elsewhere, CancelFlag()) == 1
    require_published(server, folder)


def test_download__through_a_proxy_without_a_valid_address__reports_it(
    server: KeyServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://user:secret@:port")
    with pytest.raises(KeyDownloadFailed, match=f"{FILE}; HTTP_PROXY is not the address of a proxy: write") as caught:
        download_keys(folder, ONE, source(server), CancelFlag())
    assert "secret" not in str(caught.value)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_download__cancelled__ends_soon_and_keeps_what_came(server: KeyServer, folder: Path) -> None:
    server.faults[FILE] = [silent(1000)]
    cancel = CancelFlag()
    with ThreadPoolExecutor(1) as pool:
        running_ = pool.submit(download_keys, folder, ONE, source(server), cancel)
        until(lambda: folder.is_dir() and any(path.stat().st_size == 1000 for path in folder.glob(".*.partial")))
        cancel.raise_flag()
        with pytest.raises(Cancelled):
            running_.result(60)
    assert bring(server, folder) == 1
    assert server.ranges == ["bytes=1000-"]


def test_download__cancelled_while_it_reads_what_is_there__ends_before_the_file_is_closed(
    server: KeyServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.mkdir()
    digest = hashlib.sha256(server.files[FILE]).hexdigest()
    left = folder / f".{FILE}.{digest[:16]}.partial"
    left.write_bytes(server.files[FILE][:1000])
    cancel, reading = CancelFlag(), threading.Event()
    resume = PartialFile.resume

    def resume_slowly(partial: PartialFile) -> None:
        reading.set()
        until(lambda: partial._interrupted)
        resume(partial)  # fails on a closed file

    monkeypatch.setattr(PartialFile, "resume", resume_slowly)
    with ThreadPoolExecutor(1) as pool:
        running_ = pool.submit(download_keys, folder, ONE, source(server), cancel)
        assert reading.wait(60)
        cancel.raise_flag()
        with pytest.raises(Cancelled):
            running_.result(60)
    assert left.stat().st_size == 1000


def test_download__by_several_at_once__brings_a_file_once(server: KeyServer, folder: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: bring(server, folder), range(4)))
    assert server.gets[FILE] == 1
    require_published(server, folder)


def test_download__while_another_process_holds_the_file__waits_for_it(server: KeyServer, folder: Path) -> None:
    folder.mkdir()
    digest = hashlib.sha256(server.files[FILE]).hexdigest()
    path = folder / f".{FILE}.{digest[:16]}.partial"
    with path.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        thread = threading.Thread(target=bring, args=(server, folder))
        thread.start()
        until(lambda: server.gets["CHECKSUM"] == 1)
        thread.join(0.5)
        assert thread.is_alive()
        assert server.gets[FILE] == 0
    thread.join(60)
    require_published(server, folder)


EARLIER = ONE[0].earlier_key_file


@pytest.fixture
def mirror(reference_keys_dir: Path) -> Iterator[KeyServer]:
    """A server of published keys under their earlier names, which has no list of them."""
    files = {
        wanted.earlier_key_file: (reference_keys_dir / wanted.earlier_key_file).read_bytes() for wanted in CIRCUITS
    }
    mirror = KeyServer(files)
    mirror.checksum_faults = [status(404)] * 10
    with running(mirror) as started:
        yield started


def test_download__from_a_server_without_a_list__brings_keys_with_pinned_digests(
    mirror: KeyServer, folder: Path
) -> None:
    assert download_keys(folder, CIRCUITS, source(mirror), CancelFlag()) == 3
    assert names(folder) == set(mirror.files)
    for name, data in mirror.files.items():
        assert (folder / name).read_bytes() == data
    assert download_keys(folder, CIRCUITS, source(mirror), CancelFlag()) == 0


def test_download__from_a_server_without_a_list__refuses_other_bytes(mirror: KeyServer, folder: Path) -> None:
    data = bytearray(mirror.files[EARLIER])
    data[len(data) // 2] ^= 1
    mirror.files[EARLIER] = bytes(data)
    with pytest.raises(KeyDownloadFailed, match=f"not found: {EARLIER}; .*checksum mismatch"):
        download_keys(folder, CIRCUITS, source(mirror), CancelFlag())
    assert names(folder) == set(mirror.files) - {EARLIER}


def test_download__of_a_key_without_a_pinned_digest__needs_the_list(mirror: KeyServer, folder: Path) -> None:
    unknown = circuit("v2_inclusion_32_20")
    with pytest.raises(KeyDownloadFailed, match=rf"not found: {unknown.key_file}; downloading CHECKSUM .*404"):
        download_keys(folder, [unknown], source(mirror), CancelFlag())
    with pytest.raises(KeyDownloadFailed, match=f"no checksum found for {unknown.key_file}") as caught:
        download_keys(folder, [*ONE, unknown], source(mirror), CancelFlag())
    assert EARLIER not in str(caught.value)
    assert names(folder) == {EARLIER}


def test_list__with_earlier_names_alone__brings_those(server: KeyServer, folder: Path) -> None:
    server.files = {EARLIER: server.files[FILE]}
    server.checksums = f"{hashlib.sha256(server.files[EARLIER]).hexdigest()}  {EARLIER}\n"
    assert bring(server, folder) == 1
    assert names(folder) == {EARLIER, "CHECKSUM"}
