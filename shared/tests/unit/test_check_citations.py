"""The checker of citations: findings, and accepted citations."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "check_citations.py"
PAGE = "# Programs\n\n## V1 work\n\n## Error codes\n\n```\n# Not a heading\n```\n"
CITED = "service/docs/programs.md"
MD = ".md"
"""Written apart in names of pages that do not exist: this file is checked, too."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    (tmp_path / CITED).parent.mkdir(parents=True)
    (tmp_path / CITED).write_text(PAGE)
    return tmp_path


def findings(tree: Path, *paths: str) -> list[str]:
    command = [sys.executable, str(SCRIPT), "--root", str(tree), *paths]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not answer.stderr
    lines = answer.stdout.splitlines()
    assert answer.returncode == (1 if lines else 0)
    return lines


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.py", f'"""Work (`{CITED}`, "V1 work")."""\n'),
        ("a.py", f'# {CITED}, "V1 work" and "Error codes"\n'),
        ("a.c", f'/* Source: {CITED}, "Error\n * codes". */\n'),
        ("a.json", f'{{"source": "{CITED}, \\"V1 work\\""}}\n'),
        ("a.py", f'PAGE = FOLDER / "absent{MD}"\n'),
        ("service/src/a.py", f"# docs/programs{MD}\n"),
        (
            "a" + MD,
            f"[work]({CITED}#v1-work), [home](https://host/absent{MD}#x), `[x](absent)`, [here](#top)\n\n# Top\n",
        ),
    ],
)
def test_citation__that_resolves_or_is_code__is_not_reported(tree: Path, name: str, text: str) -> None:
    (tree / name).parent.mkdir(parents=True, exist_ok=True)
    (tree / name).write_text(text)
    assert findings(tree) == []


@pytest.mark.parametrize(
    ("name", "text", "finding"),
    [
        ("a.py", f"\n# Source: onchain{MD} 5.1\n", f"a.py:2: no page onchain{MD} in the tree"),
        ("a.py", f'# {CITED}, "V2 work"\n', f'a.py:1: no heading "V2 work" in {CITED}'),
        ("a.py", f'# {CITED}, "V1 work" and "Not a heading"\n', f'a.py:1: no heading "Not a heading" in {CITED}'),
    ],
)
def test_citation__without_its_page_or_heading__is_reported_in_one_line(
    tree: Path, name: str, text: str, finding: str
) -> None:
    (tree / name).write_text(text)
    assert findings(tree) == [finding]


def test_citation__outside_of_the_given_paths__is_not_reported(tree: Path) -> None:
    (tree / "a.py").write_text(f"# absent{MD}\n")
    assert findings(tree, "service") == []
