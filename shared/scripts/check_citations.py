#!/usr/bin/env python3
"""Report citations of pages that do not resolve: `check_citations.py [--root FOLDER] [PATH …]`.

A citation is the name of a page, from the root or from a folder above the citing file, perhaps with quoted headings:
`forester/docs/reference/programs.md, "V1 work" and "Error codes"`. A string literal that holds nothing else is code.
Links of pages are checked when the site is built (build-docs). Paths restrict the report to files below them.
Prints one line for each finding; exits 1 if there are any.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_BREAK = r"(?:[ \t]|\n[ \t]*[#*/]*)"
_HEADING = r'\\?"(?P<{}>[^"\\]+)\\?"'
_PAGE = re.compile(r"(?<![\w./:{}<>*-])(?P<page>(?:\.{1,2}/)*\w[\w./-]*\.md)\b(?![\w/])")
_FIRST = re.compile(rf"`?,{_BREAK}+" + _HEADING.format("name"))
_NEXT = re.compile(rf"(?:,|{_BREAK}+(?:and|to)){_BREAK}+" + _HEADING.format("name"))
_LINK = re.compile(r"\]\((?P<target>[^()\s]+)\)")
_LARGEST_BYTES = 1 << 20


@cache
def headings(page: Path) -> tuple[str, ...]:
    """Return the headings of a page, without their marks."""
    text = re.sub(r"^(```|~~~).*?^\1", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return tuple(re.findall(r"^#+ +(.+?) *#*$", text, flags=re.MULTILINE))


def findings(root: Path, file: Path, text: str) -> Iterator[tuple[int, str]]:
    """Yield position and description of what does not resolve in a file."""
    targets = [range(*link.span("target")) for link in _LINK.finditer(text)] if file.suffix == ".md" else []
    for citation in _PAGE.finditer(text):
        around = text[citation.start() - 1 : citation.start()] + text[citation.end() : citation.end() + 1]
        if around in ('""', "''") or any(citation.start() in target for target in targets):
            continue
        folders = [root, *(folder for folder in file.parents if folder.is_relative_to(root))]
        page = next((folder / citation["page"] for folder in folders if (folder / citation["page"]).is_file()), None)
        if page is None:
            yield citation.start(), f"no page {citation['page']} in the tree"
            continue
        quoted = _FIRST.match(text, citation.end())
        while quoted:
            name = re.sub(rf"{_BREAK}+", " ", quoted["name"])
            if name not in headings(page):
                yield quoted.start("name"), f'no heading "{name}" in {citation["page"]}'
            quoted = _NEXT.match(text, quoted.end())


def tracked_files(root: Path, paths: list[str]) -> Iterator[Path]:
    """Yield the text files of a checkout that are tracked or new, below ``paths`` if there are any."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *paths]
    listing = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    for name in sorted(set(listing.split("\0")) - {""}):
        file = root / name
        if file.is_file() and not file.is_symlink() and file.stat().st_size <= _LARGEST_BYTES:
            yield file


def main() -> int:
    """Check the files of a checkout."""
    options = argparse.ArgumentParser(description="Report citations of pages that do not resolve.")
    options.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2], help="root of a checkout")
    options.add_argument("paths", nargs="*", help="files and folders to check, all if there are none")
    given = options.parse_args()
    found = 0
    for file in tracked_files(given.root, given.paths):
        try:
            text = file.read_text()
        except UnicodeDecodeError:
            continue
        for position, problem in findings(given.root, file, text):
            found += 1
            print(f"{file.relative_to(given.root)}:{text.count(chr(10), 0, position) + 1}: {problem}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
