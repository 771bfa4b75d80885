"""Print the part of requirements.lock that some members need at run time, hashes included.

    locked_subset.py <member folder>... > run-time.lock

Run it with an interpreter into which the whole lock is installed: the requirements of a package are in its metadata.
"""

from __future__ import annotations

import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

WORKSPACE = Path(__file__).resolve().parents[2]
MEMBERS = {"zkc-shared", "zkc-prover", "zkc-forester"}


def locked_blocks(lock: str) -> dict[str, str]:
    """Name of a package → its lines in the lock."""
    blocks = re.findall(r"^([A-Za-z0-9][^\s=]*)(==.*(?:\n[ \t].*)*\n)", lock, flags=re.MULTILINE)
    return {canonicalize_name(name): name + rest for name, rest in blocks}


def run_time_packages(members: list[str]) -> set[str]:
    """Return the names of all packages that the members need here, directly or not."""
    waiting: list[Requirement] = []
    for member in members:
        project = tomllib.loads((WORKSPACE / member / "pyproject.toml").read_text())["project"]
        waiting.extend(map(Requirement, project["dependencies"]))
    found: set[str] = set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in found or name in MEMBERS:
            continue
        found.add(name)
        for text in metadata.requires(name) or []:
            needed = Requirement(text)
            extras = {"", *requirement.extras}
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(needed)
    return found


def main() -> int:
    """Print the blocks of the members that the command line names; return the exit status."""
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    blocks = locked_blocks((WORKSPACE / "requirements.lock").read_text())
    for name in sorted(run_time_packages(sys.argv[1:])):
        print(blocks[name], end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
