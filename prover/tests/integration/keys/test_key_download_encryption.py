"""Downloads over TLS stay encrypted, and one over http:// says what its digests are worth."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from certificates import Certificates
from faulty_key_server import KeyServer, running, status
from in_process_service import circuit
from structlog.testing import capture_logs

from prover.errors import KeyDownloadFailed
from prover.kernel.cancellation import CancelFlag
from prover.keys.download.download import download_keys
from prover.keys.download.source import DownloadSource

pytestmark = pytest.mark.usefixtures("no_proxy")

ONE = circuit("v2_inclusion_32_1")
FILES = {ONE.key_file: b"a key"}


def bring(url: str, folder: Path, manifest: Path | None = None) -> None:
    source = DownloadSource(url, attempts=2, backoff_s=0.01, manifest=manifest)
    download_keys(folder, [ONE], source, CancelFlag())


@pytest.fixture
def plain() -> Iterator[KeyServer]:
    with running(KeyServer(FILES)) as server:
        yield server


@pytest.fixture
def secure(redis_certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> Iterator[KeyServer]:
    monkeypatch.setenv("SSL_CERT_FILE", str(redis_certificates.authority))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(redis_certificates.certificate, redis_certificates.key)
    with running(KeyServer(FILES), tls) as server:
        yield server


@pytest.mark.parametrize("what", ["list", "key"])
@pytest.mark.parametrize("code", [301, 302, 307, 308])
def test_redirect__from_https_to_http__is_refused_before_it_is_followed(
    secure: KeyServer, plain: KeyServer, tmp_path: Path, what: str, code: int
) -> None:
    name = "CHECKSUM" if what == "list" else ONE.key_file
    fault = status(code, {"Location": f"{plain.url}/{name}"})
    if what == "list":
        secure.checksum_faults = [fault]
    else:
        secure.faults[name] = [fault]
    with pytest.raises(KeyDownloadFailed, match="redirects from https to an unencrypted address"):
        bring(secure.url, tmp_path)
    assert not plain.gets
    assert not (tmp_path / ONE.key_file).exists()


def test_redirect__from_https_to_https__is_followed(secure: KeyServer, tmp_path: Path) -> None:
    secure.faults[ONE.key_file] = [status(302, {"Location": f"/keys/{ONE.key_file}"})]
    bring(secure.url, tmp_path)
    assert (tmp_path / ONE.key_file).read_bytes() == FILES[ONE.key_file]


def test_redirect__from_a_chosen_http_mirror__is_followed(plain: KeyServer, tmp_path: Path) -> None:
    plain.faults[ONE.key_file] = [status(302, {"Location": f"{plain.url}/{ONE.key_file}"})]
    bring(plain.url, tmp_path)
    assert (tmp_path / ONE.key_file).exists()


def warnings(url: str, folder: Path, manifest: Path | None = None) -> list[str]:
    with capture_logs() as logs:
        bring(url, folder, manifest)
    return [entry["event"] for entry in logs if entry["log_level"] == "warning"]


def test_mirror__over_http__is_used_with_a_warning_unless_digests_are_pinned(
    plain: KeyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def resolve(_: object, host: str, port: int = 0, family: int = socket.AF_INET) -> list[Any]:
        return [{"hostname": host, "host": "127.0.0.1", "port": port, "family": family, "proto": 0, "flags": 0}]

    monkeypatch.setattr(aiohttp.ThreadedResolver, "resolve", resolve)
    monkeypatch.setattr(aiohttp.DefaultResolver, "resolve", resolve)
    url = plain.url.replace("127.0.0.1", "mirror.example")
    assert warnings(url, tmp_path / "listed") == ["download_unencrypted"]
    digest = plain.checksums.split()[0]
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps({"keys": [{"name": ONE.key_file, "size": 5, "sha256": digest}]}))
    assert warnings(url, tmp_path / "pinned", manifest) == []
    assert warnings(plain.url, tmp_path / "loopback") == []
