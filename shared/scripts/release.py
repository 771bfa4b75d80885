#!/usr/bin/env python3
"""Build what a release consists of, in dist/VERSION: `make release`. `release.py sbom` writes bills of materials only.

Wheels for x86-64 and aarch64, source archives, charts, locks, bills of materials, notes and checksums. Images are built
by `make images`, which needs a container engine.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import release_version
from build_wheels import ARCHITECTURES, GLIBC
from deployment_tools import CHARTS, ToolsUnavailable, fetch, package_chart

WORKSPACE = Path(__file__).resolve().parents[2]
MEMBERS = ("shared", "prover", "forester")
LOCKS = WORKSPACE / "shared" / "locks"
_STATE = WORKSPACE / ".state" / "release"


class ReleaseFailed(Exception):
    """A part of the release could not be made; the message says which and why."""


def run(words: Sequence[str | Path], **environment: str) -> str:
    """Run a command in the workspace and return its output. Raises ReleaseFailed with what it wrote."""
    answer = subprocess.run(
        words, cwd=WORKSPACE, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    if answer.returncode != 0:
        raise ReleaseFailed(f"{' '.join(map(str, words[:4]))} failed:\n{answer.stdout}{answer.stderr}".rstrip())
    return answer.stdout


def environment_of(name: str, *locks: str, empty: bool = False) -> Path:
    """Return the Python of an environment with the packages of some locks, by hash, made new if it must be empty."""
    folder = _STATE / name
    if empty:
        shutil.rmtree(folder, ignore_errors=True)
    if not (folder / "bin" / "python").exists():
        run([sys.executable, "-m", "venv", "--without-pip", folder])
    for lock in locks:
        install = f'. shared/scripts/install_locked.bash; install_locked "{folder}" "shared/locks/{lock}.lock"'
        run(["bash", "-euo", "pipefail", "-c", install])
    return folder / "bin" / "python"


def install_wheels(python: Path, wheels: Sequence[Path]) -> None:
    """Install wheels as they are, without looking for anything elsewhere."""
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    run([*pip, "--force-reinstall", *wheels])


def export_commit() -> Path:
    """Write the files of the checked-out commit, and no others, to a folder; return it.

    The build backend and helm package what git ignores in a folder, such as a CUDA library next to the sources.
    """
    folder = _STATE / "sources"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    run(["bash", "-euo", "pipefail", "-c", f'git archive HEAD | tar --extract --directory="{folder}"'])
    return folder


def build_wheels(architecture: str, folder: Path, sources: Path = WORKSPACE) -> list[Path]:
    """Build the wheels of all members; return their paths. Raises ReleaseFailed if a tag promises too much."""
    wheels = _build(folder, f"--architecture={architecture}", sources)
    for wheel in wheels:
        if not wheel.name.endswith("-any.whl"):
            words: list[str | Path] = [environment_of("tools", "release"), "-m", "auditwheel", "show", "--json", wheel]
            problem = tag_problem(json.loads(run(words)), architecture)
            if problem:
                raise ReleaseFailed(f"{wheel.name}: {problem}")
    return wheels


def tag_problem(audit: Mapping[str, Any], architecture: str) -> str | None:
    """Return why a wheel does not run everywhere that its tag promises, by auditwheel's answer; None if it does."""
    tag = re.fullmatch(rf"manylinux_(\d+)_(\d+)_{architecture}", audit["overall_tag"])
    if tag is None:
        return f"it runs on {audit['overall_tag']} only"
    if tuple(map(int, tag.groups())) > tuple(map(int, GLIBC.split("."))):
        return f"it needs glibc {tag[1]}.{tag[2]}, and its tag promises {GLIBC}: {audit['versioned_symbols']}"
    if audit["external_libs"] or audit["unsupported_isa"]:
        return f"it needs other libraries or a newer CPU than its tag promises: {audit['external_libs']}"
    return None


def _build(folder: Path, option: str, sources: Path) -> list[Path]:
    """Build archives of all members with the times of the checked-out commit; return their paths."""
    tools = environment_of("tools", "release")
    program = sources / "shared/scripts/build_wheels.py"
    words: list[str | Path] = [tools, program, option, f"--output={folder}", *MEMBERS]
    time = run(["git", "log", "-1", "--format=%ct"]).strip()
    return [Path(line) for line in run(words, SOURCE_DATE_EPOCH=time).splitlines()]


def write_sboms(folder: Path, wheels: Sequence[Path]) -> list[Path]:
    """Write a CycloneDX bill of materials for each service, from an environment as its image has; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    tools, written = environment_of("tools", "release"), []
    for service in CHARTS:
        python = environment_of(f"sbom-{service}", service, empty=True)
        install_wheels(python, [wheel for wheel in wheels if wheel.name.startswith(("zkc_shared", f"zkc_{service}"))])
        # It names where on this machine a wheel was.
        for origin in python.parents[1].glob("lib/*/site-packages/zkc_*/direct_url.json"):
            origin.unlink()
        written.append(folder / f"{service}-{release_version.version()}.cdx.json")
        words = [
            "environment",
            f"--pyproject={service}/pyproject.toml",
            "--mc-type=application",
            "--output-reproducible",
        ]
        run([tools, "-m", "cyclonedx_py", *words, f"--output-file={written[-1]}", python])
    return written


def write_checksums(folder: Path) -> Path:
    """Write SHA256SUMS, which `sha256sum --check` reads, of all files of a folder."""
    files = sorted(path for path in folder.iterdir() if path.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    sums = folder / "SHA256SUMS"
    sums.write_text("".join(lines))
    return sums


def without_page_links(notes: str) -> str:
    """Return notes in which a link to a page of the tree is its text: it leads nowhere from a release."""
    return re.sub(r"\[([^\[\]]+)\]\((?!https?:)[^()\s]+\)", r"\1", notes)


def require_committed() -> None:
    """Raise ReleaseFailed for changes and new files that no commit has: a release misses them."""
    if run(["git", "status", "--porcelain", "--untracked-files=no"]):
        raise ReleaseFailed("there are uncommitted changes; commit them, so that the release has a commit")
    new = run(["git", "-c", "core.quotePath=false", "ls-files", "--others", "--exclude-standard", "--", *MEMBERS])
    if new:
        names = ", ".join(new.splitlines())
        raise ReleaseFailed(f"there are files that no commit has: {names}; commit or remove them")


def build() -> Path:
    """Build everything; return the folder. Raises ReleaseFailed, VersionsDiffer or ToolsUnavailable."""
    number = release_version.version()
    date, notes = release_version.section()
    require_committed()
    if date == release_version.UNRELEASED:
        print(
            f"warning: {number} is marked as unreleased in CHANGELOG.md; close it with: make changelog", file=sys.stderr
        )
    fetch()
    folder = WORKSPACE / "dist" / number
    shutil.rmtree(folder, ignore_errors=True)
    sources = export_commit()
    wheels = {architecture: build_wheels(architecture, folder, sources) for architecture in ARCHITECTURES}
    _build(folder, "--sdist", sources)
    for service in CHARTS:
        package_chart(service, folder, number, sources)
        shutil.copy(LOCKS / f"{service}.lock", folder / f"{service}-{number}.lock")
    write_sboms(folder, wheels[platform.machine()])
    (folder / "NOTES.md").write_text(f"# {number} ({date})\n\n{without_page_links(notes)}")
    write_checksums(folder)
    return folder


def main() -> int:
    """Build what the command line asks for; return the exit status."""
    try:
        if sys.argv[1:] == ["sbom"]:
            wheels = build_wheels(platform.machine(), _STATE / "wheels")
            print(*write_sboms(WORKSPACE / "dist" / "sbom", wheels), sep="\n")
        elif sys.argv[1:] == []:
            folder = build()
            for path in sorted(folder.iterdir()):
                print(f"{path.stat().st_size:>10,}  {path.relative_to(WORKSPACE)}")
        else:
            print(__doc__, file=sys.stderr)
            return 2
    except (ReleaseFailed, release_version.VersionsDiffer, ToolsUnavailable) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
