#!/usr/bin/env python3
"""The version of the release in the making, and the section of CHANGELOG.md that describes it.

    release_version.py                   print the version
    release_version.py close             date the section of this version
    release_version.py next VERSION      set the version in all files, and begin its section

All members, charts and wheels have one version. During development its section is marked as unreleased.
"""

from __future__ import annotations

import datetime
import re
import sys
from pathlib import Path

WORKSPACE = Path(__file__).resolve().parents[2]
CHANGELOG = Path("CHANGELOG.md")
_MEMBERS = ("shared", "prover", "forester", "shared/localnet")
_SERVICES = ("prover", "forester")
_PAGES = (Path("README.md"), Path("shared/docs/release.md"), Path("shared/docs/tutorials/kubernetes.md"))
_NUMBER = r"\d+\.\d+\.\d+"
_TITLE = re.compile(rf"^## ({_NUMBER}) \(([^)]+)\)$", re.MULTILINE)
UNRELEASED = "unreleased"


class VersionsDiffer(Exception):
    """Files name different versions, or the changelog has no section for the version."""


def _places() -> dict[Path, str]:
    """Return the files with the version, and patterns whose first group is what precedes it."""
    places = {Path(member, "pyproject.toml"): r'(^version = "|"zkc-shared==)' for member in _MEMBERS}
    charts = {Path(service, "deploy/chart/Chart.yaml"): r"(^(?:version|appVersion): )" for service in _SERVICES}
    pages = dict.fromkeys(_PAGES, r"(dist/|(?:shared|prover|forester)[-:]|image\.tag=)")
    return places | charts | pages | {Path("prover/src/prover/versions.py"): r'(^VERSION = ")'}


def files() -> list[Path]:
    """Return the files that name the version, relative to the workspace."""
    return list(_places())


def versions(workspace: Path = WORKSPACE) -> dict[str, set[str]]:
    """Return each version that a file names, with the names of the files."""
    found: dict[str, set[str]] = {}
    for path, before in _places().items():
        for match in re.finditer(f"{before}({_NUMBER})", (workspace / path).read_text(), re.MULTILINE):
            found.setdefault(match[2], set()).add(str(path))
    return found


def version(workspace: Path = WORKSPACE) -> str:
    """Return the version. Raises VersionsDiffer."""
    found = versions(workspace)
    if len(found) != 1:
        detail = "; ".join(f"{number}: {', '.join(sorted(files))}" for number, files in found.items())
        raise VersionsDiffer(f"files name different versions ({detail}); set one with: make changelog NEXT=VERSION")
    [number] = found
    return number


def section(workspace: Path = WORKSPACE) -> tuple[str, str]:
    """Return date, or "unreleased", and text of the changelog's section for the version. Raises VersionsDiffer."""
    number, text = version(workspace), (workspace / CHANGELOG).read_text()
    titles = list(_TITLE.finditer(text))
    if not titles or titles[0][1] != number:
        raise VersionsDiffer(
            f"the first section of {CHANGELOG} is not that of {number}; write ## {number} (unreleased)"
        )
    end = titles[1].start() if len(titles) > 1 else len(text)
    return titles[0][2], text[titles[0].end() : end].strip() + "\n"


def close(workspace: Path = WORKSPACE) -> None:
    """Replace the mark of the first section by today's date. Raises VersionsDiffer."""
    date, _ = section(workspace)
    if date != UNRELEASED:
        raise VersionsDiffer(
            f"{version(workspace)} was closed on {date}; begin the next with: make changelog NEXT=VERSION"
        )
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    path = workspace / CHANGELOG
    path.write_text(path.read_text().replace(f"({UNRELEASED})", f"({today})", 1))


def begin(number: str, workspace: Path = WORKSPACE) -> None:
    """Set the version in all files, and add an empty section. Raises VersionsDiffer."""
    date, _ = section(workspace)
    if not re.fullmatch(_NUMBER, number):
        raise VersionsDiffer(f"{number} is no version; write it as 1.2.3")
    if date == UNRELEASED:
        raise VersionsDiffer(f"{version(workspace)} is unreleased; close it first with: make changelog")
    for path, before in _places().items():
        text = (workspace / path).read_text()
        (workspace / path).write_text(re.sub(before + _NUMBER, rf"\g<1>{number}", text, flags=re.MULTILINE))
    path = workspace / CHANGELOG
    path.write_text(path.read_text().replace("\n## ", f"\n## {number} ({UNRELEASED})\n\n## ", 1))


def main() -> int:
    """Do what the command line says; return the exit status."""
    try:
        match sys.argv[1:]:
            case []:
                print(version())
            case ["close"]:
                close()
            case ["next", number]:
                begin(number)
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except VersionsDiffer as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
