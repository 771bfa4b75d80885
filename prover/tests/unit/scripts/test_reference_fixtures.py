"""The cache of the reference's artefacts, with a simulated npm client and a small package."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import reference_fixtures
from reference_fixtures import ReferenceUnavailable

CONTENT = {
    "bin/proving-keys/a.key": b"key",
    "bin/prover-linux-x64": b"#!/bin/sh\necho prover\n",
    "bin/prover-linux-arm64": b"#!/bin/sh\necho prover\n",
    "accounts/one.json": b"{}",
}
PLACES = {
    "bin/proving-keys/a.key": "proving-keys/a.key",
    "bin/prover-linux-x64": "prover-linux-x64",
    "bin/prover-linux-arm64": "prover-linux-arm64",
    "accounts/one.json": "accounts/one.json",
}


class Registry:
    """A folder with an `npm` that copies the archive to where `npm pack` would write it, and counts its calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.archive = folder / "package.tgz"
        self.calls_file = folder / "calls"
        npm = folder / "npm"
        npm.write_text(
            "#!/bin/sh\n"
            'if [ "$1" = --version ]; then echo 10.0.0; exit 0; fi\n'
            f"echo x >> {self.calls_file}\n"
            f"if [ ! -f {self.archive} ]; then echo 'npm error network' >&2; exit 1; fi\n"
            f"cp {self.archive} ./package.tgz && echo package.tgz\n"
        )
        npm.chmod(0o755)

    @property
    def calls(self) -> int:
        """Number of runs of `npm pack`."""
        return len(self.calls_file.read_text().split()) if self.calls_file.exists() else 0

    def publish(self, content: dict[str, bytes]) -> None:
        """Write the archive that `npm pack` will bring."""
        with tarfile.open(self.archive, "w:gz") as archive:
            for name, data in content.items():
                member = tarfile.TarInfo(f"package/{name}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))

    def pin(self, path: Path) -> None:
        """Write pins that fit CONTENT and the published archive."""
        digest = hashlib.sha512(self.archive.read_bytes()).digest() if self.archive.exists() else b""
        files = {
            PLACES[name]: {"from": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in CONTENT.items()
        }
        entry = {"integrity": "sha512-" + base64.b64encode(digest).decode(), "files": files}
        path.write_text(json.dumps({"package": "small", "versions": {"1.0.0": entry}}))


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """A registry with the package published and pinned, and an empty cache."""
    tools = tmp_path / "tools"
    tools.mkdir()
    registry = Registry(tools)
    registry.publish(CONTENT)
    pins = tmp_path / "pins.json"
    registry.pin(pins)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("ZKC_REFERENCE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(reference_fixtures, "PINS", pins)
    reference_fixtures.pinned_package.cache_clear()
    yield registry
    reference_fixtures.pinned_package.cache_clear()


def test_fetch__empty_cache__places_every_file_of_this_machine(registry: Registry) -> None:
    folder = reference_fixtures.fetch("1.0.0")
    assert (folder / "proving-keys/a.key").read_bytes() == b"key"
    assert os.access(folder / reference_fixtures.prover_name(), os.X_OK)
    assert not os.access(folder / "accounts/one.json", os.X_OK)
    assert not (folder.parent / ".incoming").exists()


def test_fetch__complete_cache__does_not_call_npm(registry: Registry) -> None:
    reference_fixtures.fetch("1.0.0")
    reference_fixtures.fetch("1.0.0")
    assert registry.calls == 1


@pytest.mark.parametrize("damage", ["deleted", "truncated"])
def test_fetch__damaged_file__brings_it_back(registry: Registry, damage: str) -> None:
    path = reference_fixtures.fetch("1.0.0") / "proving-keys/a.key"
    if damage == "deleted":
        path.unlink()
    else:
        path.write_bytes(b"k")
    reference_fixtures.fetch("1.0.0")
    assert path.read_bytes() == b"key"


def test_fetch__lost_marker__verifies_what_is_there_without_npm(registry: Registry) -> None:
    folder = reference_fixtures.fetch("1.0.0")
    (folder / ".verified").unlink()
    reference_fixtures.fetch("1.0.0")
    assert registry.calls == 1
    assert reference_fixtures.is_complete("1.0.0")


def test_fetch__archive_of_other_content__is_refused_and_nothing_placed(registry: Registry) -> None:
    registry.publish({**CONTENT, "bin/proving-keys/a.key": b"bad"})
    with pytest.raises(ReferenceUnavailable, match="integrity"):
        reference_fixtures.fetch("1.0.0")
    assert not (reference_fixtures.cache_root() / "1.0.0").exists()


def test_fetch__file_of_other_content_in_a_fitting_archive__is_refused(registry: Registry, tmp_path: Path) -> None:
    registry.publish({**CONTENT, "bin/proving-keys/a.key": b"bad"})
    registry.pin(tmp_path / "pins.json")
    with pytest.raises(ReferenceUnavailable, match="SHA-256"):
        reference_fixtures.fetch("1.0.0")
    assert not list((reference_fixtures.cache_root() / "1.0.0").rglob("*.key"))


def test_fetch__archive_without_a_pinned_file__is_refused(registry: Registry, tmp_path: Path) -> None:
    registry.publish({name: data for name, data in CONTENT.items() if not name.startswith("accounts/")})
    registry.pin(tmp_path / "pins.json")
    with pytest.raises(ReferenceUnavailable, match="lacks"):
        reference_fixtures.fetch("1.0.0")


def test_fetch__no_network__says_what_npm_said(registry: Registry) -> None:
    registry.archive.unlink()
    with pytest.raises(ReferenceUnavailable, match="npm error network"):
        reference_fixtures.fetch("1.0.0")
    assert registry.calls == reference_fixtures.ATTEMPTS
