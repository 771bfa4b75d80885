#!/usr/bin/env python3
"""Report words of `unwelcome_words.toml` in the pages that it lists as clean; exits 1 if there are any."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_CODE = re.compile(r"^(?P<fence>```|~~~).*?^(?P=fence)|`[^`\n]*`|\]\([^)\n]*\)", flags=re.MULTILINE | re.DOTALL)


def findings(text: str, say: Mapping[str, str]) -> Iterator[str]:
    """Yield `line: what, and what to say` for each unwelcome word of a page."""
    prose = _CODE.sub(lambda code: re.sub(r"[^\n]", "`", code[0]), text)
    for pattern, better in say.items():
        for found in re.finditer(rf"\b(?:{pattern})\b".replace(" ", r"\s+"), prose, flags=re.IGNORECASE):
            line = prose.count("\n", 0, found.start()) + 1
            yield f'{line}: "{" ".join(found[0].split())}"; say: {better}'


def main() -> int:
    """Check the pages of the list."""
    content = tomllib.loads(Path(__file__).with_name("unwelcome_words.toml").read_text())
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *content["clean"]]
    pages = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    lines = [
        f"{page}:{line}"
        for page in sorted({page for page in pages if page.endswith(".md")})
        for line in findings((ROOT / page).read_text(), content["say"])
    ]
    print("\n".join(lines), end="\n" if lines else "")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
